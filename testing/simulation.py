"""
Seeded simulations: runs of a workflow in a world where everything goes wrong, on a virtual clock.

    for seed in range(1_000):
        outcome = simulate(flow, seed=seed, model=answer, code=code)
        assert not outcome.problems, outcome

The decisions, the loop, the leases and the log's rules are the real ones; workers, time, messages
and the world are not. A seed fixes which worker goes on when, what is lost, doubled, late, killed
and stopped, so that whatever it shows is shown again. The history checker judges how it ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mulligan.actors.session import work
from mulligan.decisions import people
from mulligan.errors import AppendRefused, InvalidInput, StoreUnavailable
from mulligan.events import facts
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, EventStore
from mulligan.events.tasks import run_task
from mulligan.flow import Flow, compile_flow
from mulligan.projections.problem import Problem
from mulligan.projections.projector import Projector
from mulligan.projections.run import fold
from mulligan.projections.state import RunState
from mulligan.providers.port import Answer, Failure, ModelRequest, Provider
from mulligan.testing.checker import Effect, check
from mulligan.testing.journal import Journal, journaled
from mulligan.testing.scripted_provider import Scripted, ScriptedProvider
from mulligan.testing.turns import Turn
from mulligan.testing.virtual_process import LEASE_MS, PendingWrite, VirtualProcess, VirtualWrites
from mulligan.testing.witness import unknown_effects

Model = Callable[[ModelRequest], Scripted]
"""What a model says to a request, whenever and however often it is asked."""

LOST_WORKERS = ("its workers were lost again and again", "workers in a row were lost", "node ")
"""How a run is parked that kept losing its workers, as it well may here, and what the run says."""

CALM_ROUNDS = 60
"""Without further mishaps, in which all has to come to an end or wait."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad a world is: how many steps its mishaps last, and shares from 0 to 1."""

    steps: int = 110
    processes: int = 2
    stands: float = 0.4
    """of the points that a worker comes to, those where others may go on before it does"""
    lost_calls: float = 0.03
    """calls of the log that are lost, and as many answers"""
    lost_messages: float = 0.2
    doubled_messages: float = 0.2
    set_back: float = 0.1
    """worlds in which the server is once restored from an older state"""
    cancelled: float = 0.15
    """worlds in which somebody cancels the run"""
    clock_jumps: float = 0.15
    """worlds in which the server's clock is set forward by more than a lease"""


@dataclass(slots=True)
class Simulated:
    """What became of a world: what is wrong with it, what happened in it, and how its run ended."""

    seed: int
    problems: list[Problem]
    happened: Counter[str]
    state: RunState

    def __str__(self) -> str:
        told = "\n".join(f"  {problem}" for problem in self.problems)
        happened = ", ".join(f"{count} {name}" for name, count in sorted(self.happened.items()))
        return (
            f"seed {self.seed}: {self.state.status} {self.state.reason or ''}\n{told}\n{happened}"
        )


def simulate(
    workflow: Flow,
    input: Any = None,  # noqa: A002 - the field's name
    *,
    seed: int,
    model: Model | None = None,
    code: Mapping[str, Callable[..., Any]] | None = None,
    weather: Weather | None = None,
) -> Simulated:
    """
    Play the world of a seed.

    Args:
        model: answers requests; a failure or a malformed output now and then makes it interesting.
        code: the tools and functions that the workflow names, by their paths. They touch nothing:
            the simulation itself notes the effects of those that take an `idempotency_key`, and
            answers what a tool's `verify` is asked.
        weather: how bad it is.
    """
    world = _World(
        compile_flow(workflow, default_model="scripted/any"),
        input,
        seed,
        _Always(model) if model is not None else ScriptedProvider([]),
        code or {},
        weather or Weather(),
    )
    with _dice_of(seed):
        return world.play()


@contextmanager
def _dice_of(seed: int) -> Any:
    """What the program draws itself (the jitter of waits) is drawn from the seed as well."""
    kept = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(kept)


class _Always(ScriptedProvider):
    """Answers by a function, as often as it is asked."""

    def __init__(self, model: Model) -> None:
        super().__init__([])
        self._model = model

    def ask(self, prepared: Any, cancellation: Any, hear: Any = None) -> Answer | Failure:
        """See `Provider.ask`."""
        return ScriptedProvider([self._model], [self._model]).ask(prepared, cancellation, hear)


@dataclass
class _File:
    """What a restored server knows, and how far its users had been acknowledged."""

    log: dict[str, Any]
    journal: int
    passed_ms: int


@dataclass
class _World:
    """One world; it is what `Surroundings` says."""

    plan: Any
    input: Any
    seed: int
    provider: Provider
    code: Mapping[str, Callable[..., Any]]
    weather: Weather
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.dice = Random(self.seed)
        self.passed_ms = 1_000
        self.set_forward_ms = 0
        self.server = MemoryEventStore(lambda: self.passed_ms + self.set_forward_ms)
        self.journal = Journal()
        self.log: EventStore = journaled(self.server, self.journal)
        self.seen: list[Effect] = []
        self.messages: list[str] = []
        self.lost_calls = self.weather.lost_calls
        self.stands = self.weather.stands
        self.current: Turn | None = None
        self.file: _File | None = None
        self.jumps_from: int | None = None
        self.processes = [self._process() for _ in range(self.weather.processes)]
        self.problems: list[Problem] = []
        self.minted = 0

    def _process(self) -> VirtualProcess:
        return VirtualProcess(self, self.provider, self.code)

    # --- What processes touch --------------------------------------------------------------------

    def now_s(self) -> float:
        """See `Surroundings`; so the other methods here."""
        return self.passed_ms / 1_000

    def turn(self) -> Turn | None:
        return self.current

    def others_go_on(self) -> bool:
        return self._chance(self.stands)

    def is_lost(self) -> bool:
        lost = self._chance(self.lost_calls)
        self.happened["call lost"] += lost
        return lost

    def hint(self, task: str) -> None:
        if self._chance(self.weather.lost_messages):
            self.happened["message lost"] += 1
        else:
            self.messages.append(task)

    def happens(self, key: str | None) -> None:
        if key is not None:
            self.seen.append(Effect(key, self.passed_ms + self.set_forward_ms))

    def has_happened(self, key: str) -> bool:
        return any(effect.key == key for effect in self.seen)

    # --- Mishaps ---------------------------------------------------------------------------------

    def play(self) -> Simulated:
        """Let it all happen, then let it end, and look at what is there."""
        asked = people.request("run", "asked", self.plan, self.input)
        self.log.append(asked)
        self.hint(run_task("run"))
        moments = self._moments()
        for step in range(self.weather.steps):
            for act in moments.get(step, ()):
                act()
            if self.jumps_from is not None and step >= self.jumps_from and self._writes():
                self._jump()
            self._something_happens()
            if self._has_ended() and not any(one.turns for one in self.processes):
                break
        self._calm_down()
        self.problems += check(self.log, journal=self.journal.entries(), effects=self.seen)
        return Simulated(self.seed, self.problems, self.happened, fold("run", self.log.read("run")))

    def _moments(self) -> dict[int, list[Callable[[], None]]]:
        """What happens once, if at all, and at which step."""
        chosen: dict[int, list[Callable[[], None]]] = {}
        steps = self.weather.steps
        if self._chance(self.weather.set_back):
            at = self.dice.randrange(steps // 2)
            chosen.setdefault(at, []).append(self._keep_file)
            chosen.setdefault(at + self.dice.randint(1, 25), []).append(self._set_back)
        if self._chance(self.weather.cancelled):
            chosen.setdefault(self.dice.randrange(steps), []).append(self._cancel)
        if self._chance(self.weather.clock_jumps):
            self.jumps_from = self.dice.randrange(steps)
        return chosen

    def _something_happens(self) -> None:
        if not self.messages and not any(one.turns for one in self.processes if one.awake):
            self._let_time_pass()  # or many a step would come to nothing
        happening = self.dice.choices(
            [
                self._step,
                self._deliver,
                self._deliver_what_nobody_sent,
                self._let_time_pass,
                self._kill_a_process,
                self._stop_a_process,
                self._write,
                self._project,
            ],
            weights=[60, 12, 1, 7, 9, 3, 4, 1],
        )[0]
        happening()

    def _step(self) -> None:
        turns = [turn for one in self.processes if one.awake for turn in one.turns]
        if turns:
            self._let_go_on(self.dice.choice(turns))

    def _let_go_on(self, turn: Turn) -> None:
        self.current = turn
        turn.step()
        self.current = None
        if turn.over:
            for process in self.processes:
                if turn in process.turns:
                    process.turns.remove(turn)
        if turn.failure is not None:
            raise turn.failure

    def _deliver(self) -> None:
        awake = [process for process in self.processes if process.awake]
        if not self.messages or not awake:
            return
        task = self.dice.choice(self.messages)
        if self._chance(self.weather.doubled_messages):
            self.happened["message doubled"] += 1
        else:
            self.messages.remove(task)
        self._work(self.dice.choice(awake), task)

    def _deliver_what_nobody_sent(self) -> None:
        """Stale messages, and those of a reconciler whose clock is ahead."""
        tasks = sorted(self.server._tasks)
        if tasks:
            self.messages.append(self.dice.choice(tasks))

    def _work(self, process: VirtualProcess, task: str) -> None:
        def body() -> None:
            with suppress(
                StoreUnavailable
            ):  # the claim got no answer; the next sweep offers it again
                work(process, task)

        process.turns.append(Turn(task, body))

    def _let_time_pass(self) -> None:
        self._pass(self.dice.choice([200, 1_000, 3_000, LEASE_MS, 3 * LEASE_MS]))
        self._sweep()

    def _sweep(self) -> None:
        swept = self.server.sweep()
        self.messages += swept.tasks
        for process in self.processes:
            if process.awake:
                process.clocks.seen(0, swept.now_ms[0], self.now_s())

    def _pass(self, ms: int) -> None:
        """Whoever is awake renews its leases meanwhile."""
        while ms > 0:
            step = min(ms, LEASE_MS // 3)
            self.passed_ms += step
            ms -= step
            for process in self.processes:
                if process.awake:
                    process.leases.renew_all()

    def _kill_a_process(self) -> None:
        """Often one that is doing something: that is where it hurts."""
        busy = [at for at, one in enumerate(self.processes) if any(map(_acts, one.turns))]
        if not busy and self._chance(0.7):
            return
        at = self.dice.choice(busy) if busy else self.dice.randrange(len(self.processes))
        for turn in self.processes[at].turns:
            self.happened[f"killed at {turn.point}"] += 1
        self._kill(at)

    def _kill(self, at: int) -> None:
        for turn in self.processes[at].turns:
            self.current = turn
            turn.kill()
        self.current = None
        self.processes[at] = self._process()

    def _stop_a_process(self) -> None:
        process = self.dice.choice(self.processes)
        process.stopped_until_s = self.now_s() + self.dice.choice([1, 5, 12, 30])
        self.happened["process stopped"] += 1

    def _write(self) -> None:
        """A write that is under way takes effect, whether or not its worker is awake."""
        under_way = self._writes()
        if under_way:
            writes, write = self.dice.choice(under_way)
            writes.act(write)

    def _writes(self) -> list[tuple[VirtualWrites, PendingWrite]]:
        return [(one.writes, write) for one in self.processes for write in one.writes.pending]

    def _project(self) -> None:
        Projector(self.server).catch_up()

    def _jump(self) -> None:
        """Just when a write is under way, and often its worker stopped: that is where it hurts."""
        self.jumps_from = None
        if self._chance(0.5):
            for process in self.processes:
                if process.writes.pending:
                    process.stopped_until_s = self.now_s() + LEASE_MS / 1_000
        self.set_forward_ms += 3 * LEASE_MS
        self.happened["clock set forward"] += 1
        self._sweep()

    # --- A server restored from an older state ---------------------------------------------------

    def _keep_file(self) -> None:
        log = {name: value for name, value in vars(self.server).items() if name in _KEPT}
        self.file = _File(deepcopy(log), len(self.journal.entries()), self.passed_ms)

    def _set_back(self) -> None:
        """
        A lost intent with a done effect can't be seen by any log (docs/log.md), so what was done by
        such, and who is about to do it, is left out of the world.
        """
        if self.file is None:
            return
        self.happened["server set back"] += 1
        for at, process in enumerate(self.processes):
            if process.writes.pending or any(_acts(turn) for turn in process.turns):
                self._kill(at)
        vars(self.server).update(self.file.log)
        self.journal.cut(self.file.journal)
        known = self._announced()
        self.seen = [effect for effect in self.seen if effect.key in known]

    def _announced(self) -> set[str]:
        """The keys of what the log says was started."""
        events = self.server.read("run")
        keys = {
            e.data.call_id: e.data.key for e in events if isinstance(e.data, facts.ToolRequested)
        }
        calls = {keys[e.data.call_id] for e in events if isinstance(e.data, facts.ToolStarted)}
        return calls | {f"run:{e.node}" for e in events if isinstance(e.data, facts.NodeStarted)}

    # --- People ----------------------------------------------------------------------------------

    def _cancel(self) -> None:
        self._tell(lambda state, op: people.cancel(state, op, ""))

    def _tell(self, say: Callable[[RunState, str], Append | None]) -> None:
        self.minted += 1
        state = fold("run", self.log.read("run"))
        try:
            append = say(state, f"person-{self.minted}")
            if append is None:
                return
            self.log.append(append)
        except (AppendRefused, InvalidInput):
            return
        for move in append.moves:
            self.messages.append(move.task)

    def _operate(self) -> None:
        """Do what an operator would who sees what the world has seen."""
        state = fold("run", self.log.read("run"))
        if state.reason == "parked":
            self._tell(lambda state, op: people.redrive(state, op, people.parked_in(state)))
        if state.reason == "exhausted" and not self.happened["resumed"]:
            self.happened["resumed"] += 1
            self._tell(lambda state, op: people.resume(state, op, None))
        for call_id, key in unknown_effects(state):
            self._reconcile(call_id, key)

    def _reconcile(self, call_id: str, key: str) -> None:
        seen = self.has_happened(key)
        outcome: Any = "succeeded" if seen else self.dice.choice(["retry", "failed"])
        self.happened[f"reconciled: {outcome}"] += 1
        self._tell(lambda state, op: people.reconcile(state, op, call_id, outcome, by="operator"))

    # --- The end ---------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        self.lost_calls = self.stands = 0.0
        self.weather = Weather(lost_messages=0, doubled_messages=0)
        for process in self.processes:
            process.stopped_until_s = 0.0
        for _ in range(CALM_ROUNDS):
            self._work_to_the_end()
            if self._has_ended():
                break
            self._operate()
            self._pass(LEASE_MS)
            self._sweep()
        self._end_what_is_left()
        self._look_at_parked()

    def _look_at_parked(self) -> None:
        """What no decision names parks a run, and should not happen."""
        for event in self.server.read("run"):
            if not isinstance(event.data, facts.NodePaused | facts.RunPaused):
                continue
            detail = event.data.detail
            if event.data.reason == "parked" and not any(one in detail for one in LOST_WORKERS):
                told = f"event {event.version}: parked, {detail}"
                self.problems.append(Problem("run_stalled", told, "run"))

    def _has_ended(self) -> bool:
        row = self.server.row("run")
        return row is None or row.phase == "closed"

    def _work_to_the_end(self) -> None:
        while self.messages or any(process.turns for process in self.processes):
            if any(process.turns for process in self.processes):
                self._step()
            else:
                self._work(self.dice.choice(self.processes), self.messages.pop())

    def _end_what_is_left(self) -> None:
        for at, process in enumerate(self.processes):
            if process.turns:
                self._kill(at)

    def _chance(self, share: float) -> bool:
        return share > 0 and self.dice.random() < share


_KEPT = {"_runs", "_tasks", "_snapshots", "_sealed", "_feeds", "_trimmed", "_rows", "_followers"}
"""Of the log in memory, what a server's file holds."""


def _acts(turn: Turn) -> bool:
    """Whether it stands where the effect that its log announces may have taken place."""
    return turn.point not in ("begun", "claim.before", "claim.after")
