"""
Random worlds: toy runs on a real server, worked by workers that are stopped, paused and killed at
every step, with calls and messages lost, doubled and late, in an order that a seed fixes.

    with ValkeyServer() as server, server.client() as client:
        outcome = play(client, seed=7)
        assert not outcome.problems
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from redis import Redis

from mulligan.errors import AppendRefused
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import (
    InputProvided,
    InputRequested,
    NodePaused,
    RunCancelRequested,
    RunPaused,
    RunResumed,
    TimerFired,
    TimerSet,
    ToolStarted,
)
from mulligan.events.keys import Keys
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, AsFact, EventStore, Move
from mulligan.events.tasks import node_task, run_task
from mulligan.projections.feed_history import feed_problems
from mulligan.testing.passing_time import pass_time
from mulligan.testing.toy_history import problems
from mulligan.testing.toy_run import JOIN, NOTHING, Kind, Pace, request
from mulligan.testing.toy_worker import Steps, ToyWorker

CALM_ROUNDS = 80
"""Rounds without further mishaps in which a world must come to its end; most need fewer than 20."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad a world is: shares from 0 to 1, and how many steps the mishaps last."""

    steps: int = 110
    lost_calls: float = 0.1
    lost_messages: float = 0.3
    doubled_messages: float = 0.3
    cancelled_runs: float = 0.3
    set_back: float = 0.2
    """share of worlds in which the server is once restored from an older file"""
    counted_tokens: bool = False
    """a fault to plant: tokens that are counted on the server instead of random ones"""


@dataclass(slots=True)
class Outcome:
    """What became of a world: what is wrong with it, and what happened in it, by name."""

    seed: int
    problems: list[str]
    happened: Counter[str]


@dataclass(slots=True)
class _Live:
    """A worker in the middle of its steps, and the point at which it stands."""

    worker: ToyWorker
    steps: Steps[None]
    point: str = "begun"


@dataclass(slots=True)
class _File:
    """What a restored server knows: every key, and how far time had gone."""

    keys: dict[bytes, bytes]
    passed_ms: int


@dataclass
class World:
    """One world: its log, its workers, its messages, its people."""

    client: Redis
    seed: int
    weather: Weather
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self.client.flushdb()
        self.random = Random(self.seed)
        self.store: EventStore = RedisEventStore(self.client)
        self.lost_calls = self.weather.lost_calls
        self.happened: Counter[str] = Counter()
        self.effects: list[tuple[str, str]] = []
        self.messages: list[str] = []
        self.live: list[_Live] = []
        self.said: list[Append] = []
        self.passed_ms = 0
        self.file: _File | None = None
        self.early: list[str] = []
        self.timers: dict[tuple[str, str], int] = {}
        self.kinds = {f"r{n}": self._nodes() for n in range(self.random.randint(1, 2))}
        self.doomed = {run for run in self.kinds if self._chance(self.weather.cancelled_runs)}

    def _nodes(self) -> dict[str, Kind]:
        kinds: list[Kind] = ["plain", "plain", "slow", "ask"]
        chosen = [self.random.choice(kinds) for _ in range(self.random.randint(1, 3))]
        return {f"n{number}": kind for number, kind in enumerate(chosen)}

    # --- What workers touch ----------------------------------------------------------------------

    def act(self, run: str, call: str) -> None:
        """See `Surroundings.act`; a timer's call must not come before its time."""
        self.effects.append((run, call))
        node = call.partition(".")[0]
        set_at_ms = self.timers.get((run, node))
        if set_at_ms is not None and self.passed_ms - set_at_ms < self.pace.backoff_ms - 1_000:
            self.early.append(f"{run}: {call} was called before its backoff was over")

    def hint(self, task: str) -> None:
        """See `Surroundings.hint`."""
        if self._chance(self.weather.lost_messages):
            self.happened["message lost"] += 1
        else:
            self.messages.append(task)

    def mint_token(self) -> str:
        """See `Surroundings.mint_token`."""
        if self.weather.counted_tokens:
            return str(self.client.incr("tokens"))
        return f"{self.random.getrandbits(96):024x}"

    # --- Mishaps ---------------------------------------------------------------------------------

    def play(self) -> Outcome:
        """Let it all happen, then let it end, and look at what is in the log."""
        for run, kinds in self.kinds.items():
            self._say(request(run, f"request-{run}", kinds))
            self.hint(run_task(run))
        file_at, back_at = self._moments_of_set_back()
        for step in range(self.weather.steps):
            if step == file_at:
                self.file = self._copy()
            if step == back_at:
                self._set_back()
            self._something_happens()
        self._calm_down()
        return Outcome(self.seed, self._problems(), self.happened)

    def _moments_of_set_back(self) -> tuple[int, int]:
        if not self._chance(self.weather.set_back):
            return -1, -1
        file_at = self.random.randrange(self.weather.steps // 2)
        return file_at, file_at + self.random.randint(1, 12)

    def _something_happens(self) -> None:
        happening = self.random.choices(
            [
                self._step_a_worker,
                self._deliver,
                self._deliver_what_nobody_sent,
                self._let_time_pass,
                self._kill_a_worker,
                self._a_person_acts,
            ],
            weights=[60, 14, 4, 7, 6, 5],
        )[0]
        happening()

    def _step_a_worker(self) -> None:
        if self.live:
            self._step(self.random.choice(self.live))

    def _step(self, live: _Live) -> None:
        try:
            live.point = next(live.steps)
            self.happened["no answer"] += live.point == "no answer"
            self._note_timer(live)
        except StopIteration:
            self.live.remove(live)

    def _note_timer(self, live: _Live) -> None:
        """A timer counts from the step that put it into the log, whether or not a reply came."""
        run, node = live.worker.run, live.worker.node
        if live.point not in ("recorded", "no answer") or (run, node) in self.timers:
            return
        for event in self.store.read(run):
            if isinstance(event.data, TimerSet) and node and event.node == node:
                self.timers[run, node] = self.passed_ms

    def _deliver(self) -> None:
        if not self.messages:
            return
        task = self.random.choice(self.messages)
        if self._chance(self.weather.doubled_messages):
            self.happened["message doubled"] += 1
        else:
            self.messages.remove(task)
        self._work(task)

    def _deliver_what_nobody_sent(self) -> None:
        """Stale messages, and those of a reconciler whose clock is ahead."""
        run = self.random.choice(list(self.kinds))
        nodes = [node_task(run, node) for node in (*self.kinds[run], JOIN)]
        self._work(self.random.choice([run_task(run), *nodes]))

    def _work(self, task: str) -> None:
        worker = ToyWorker(self, task)
        self.live.append(_Live(worker, worker.steps()))

    def _let_time_pass(self) -> None:
        self._pass(self.random.choice([500, 1_000, 5_000, 10_000, 30_000]))
        for task in self.store.sweep().tasks:
            self.hint(task)

    def _pass(self, ms: int) -> None:
        self.passed_ms += ms
        pass_time(self.client, ms)

    def _kill_a_worker(self) -> None:
        if self.live:
            killed = self.random.choice(self.live)
            self.happened[f"killed: {killed.point}"] += 1
            self.live.remove(killed)

    # --- People ----------------------------------------------------------------------------------

    def _a_person_acts(self) -> None:
        if self.said and self._chance(0.3):
            self.happened["person repeated"] += 1
            self._tell(self.random.choice(self.said))
            return
        run = self.random.choice(list(self.kinds))
        if run in self.doomed and self._chance(0.3):
            self._cancel(run)
        else:
            self._answer(run)

    def _cancel(self, run: str) -> None:
        self.doomed.discard(run)
        cancelling = RunCancelRequested()
        self._say_fact(run, "cancel", cancelling, run_task(run), phase="cancelling")

    def _answer(self, run: str) -> None:
        events = self.store.read(run)
        for key, fact, task in open_questions(run, events):
            self._say_fact(run, key, fact, task)

    def _say_fact(self, run: str, key: str, fact: Any, task: str, phase: Any = None) -> None:
        op = f"{self.random.getrandbits(96):024x}"
        self._say(
            Append(
                run=run,
                op=op,
                writer=AsFact(key),
                events=(NewEvent(fact),),
                moves=(Move(task, "wake"),),
                phase=phase,
            )
        )

    def _say(self, append: Append) -> None:
        self.said.append(append)
        self._tell(append)

    def _tell(self, append: Append) -> None:
        try:
            self.store.append(append)
        except AppendRefused:
            return  # the run has ended meanwhile
        for move in append.moves:
            self.hint(move.task)

    # --- A server restored from an older file ----------------------------------------------------

    def _copy(self) -> _File:
        keys = cast("list[bytes]", self.client.keys())
        return _File({key: cast(bytes, self.client.dump(key)) for key in keys}, self.passed_ms)

    def _set_back(self) -> None:
        if self.file is None:
            return
        self.happened["server set back"] += 1
        self.client.flushdb()
        for key, dumped in self.file.keys.items():
            self.client.restore(key, 0, dumped)
        pass_time(self.client, self.passed_ms - self.file.passed_ms)
        self.said = [said for said in self.said if said.op.startswith("request-")]
        self._leave_out_what_no_log_could_know()

    def _leave_out_what_no_log_could_know(self) -> None:
        """
        A lost intent with a done effect can't be seen, nor can a holder be told from itself: that
        stays open (docs/log.md), so it is no fault here.
        """
        events = [event for run in self.kinds for event in self.store.read(run)]
        known = {(e.run, e.data.call_id) for e in events if isinstance(e.data, ToolStarted)}
        timed = {(e.run, e.node) for e in events if isinstance(e.data, TimerSet)}
        gone = {effect for effect in self.effects if effect not in known}
        self.effects = [effect for effect in self.effects if effect in known]
        self.timers = {timer: ms for timer, ms in self.timers.items() if timer in timed}
        self.live = [
            live
            for live in self.live
            if (live.worker.run, live.worker.call) not in gone and not self._is_its_own_past(live)
        ]

    def _is_its_own_past(self, live: _Live) -> bool:
        record = cast("bytes | None", self.client.hget(Keys(0).tasks, live.worker.task))
        if record is None or self.weather.counted_tokens:
            return False
        _, token, op, _, _ = record.decode().split("|")
        return token == live.worker.token and op != live.worker.op

    # --- The end ---------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        self.lost_calls = 0.0
        self.weather = Weather(
            lost_messages=0, doubled_messages=0, counted_tokens=self.weather.counted_tokens
        )
        for _ in range(CALM_ROUNDS):
            self._work_to_the_end()
            if not self.live and all(self._has_ended(run) for run in self.kinds):
                return
            self._pass(10_000)
            self.messages += self.store.sweep().tasks
            for run in self.kinds:
                self._answer(run)
        self.happened["stalled"] += 1

    def _work_to_the_end(self) -> None:
        while self.live or self.messages:
            if self.live:
                self._step_a_worker()
            else:
                self._work(self.messages.pop())

    def _has_ended(self, run: str) -> bool:
        row = self.store.row(run)
        return row is not None and row.phase == "closed"

    def _problems(self) -> list[str]:
        found = list(self.early)
        versions: dict[str, int] = {}
        for run in self.kinds:
            row, events = self.store.row(run), self.store.read(run)
            effects = [call for of, call in self.effects if of == run]
            found += [f"{run}: {problem}" for problem in problems(row, events, effects)]
            versions[run] = len(events)
            self.happened[f"run {events[-1].type if events else 'lost'}"] += 1
            self.happened["events"] += len(events)
            self.happened["timer fired"] += sum(isinstance(e.data, TimerFired) for e in events)
        feed = feed_problems(self.store.feed(0, limit=10_000), versions)
        return found + [str(problem) for problem in feed]

    def _chance(self, share: float) -> bool:
        return self.random.random() < share


def open_questions(run: str, events: list[Envelope]) -> list[tuple[str, Any, str]]:
    """What waits for a person: key of the fact, the fact, and the task to wake."""
    open_: dict[str, tuple[Any, str]] = {}
    for event in events:
        node = event.node or ""
        match event.data:
            case InputRequested(request_id=asked):
                answer = InputProvided(request_id=asked, answer=NOTHING)
                open_[asked] = (answer, node_task(run, node))
            case InputProvided(request_id=answered):
                open_.pop(answered, None)
            case NodePaused(reason="parked") | RunPaused(reason="parked"):
                task = node_task(run, node) if node else run_task(run)
                open_[f"redrive {task}"] = (RunResumed(target=task), task)
            case RunResumed(target=target):
                open_.pop(f"redrive {target}", None)
            case _:
                pass
    return [(key, fact, task) for key, (fact, task) in open_.items()]


def play(client: Redis, seed: int, weather: Weather | None = None) -> Outcome:
    """Play the world of a seed on an empty database, and return what became of it."""
    return World(client, seed, weather or Weather()).play()
