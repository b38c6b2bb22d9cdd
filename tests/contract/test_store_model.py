"""
The scripts against their model: both stores answer alike, call by call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis import Redis

from mulligan.errors import MulliganError
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import (
    Append,
    Appended,
    AsFact,
    AsNew,
    ByTask,
    ByVersion,
    Claimed,
    EventStore,
    Held,
    Move,
    Swept,
    Take,
    Writer,
)
from mulligan.testing.passing_time import pass_time
from mulligan.testing.server import ValkeyServer

UNIT_MS = 60_000
"""All delays are whole units, so that the moments that a real server takes change no answer."""

RUNS = st.sampled_from(["a", "b"])
KINDS = st.sampled_from(["", "n:1", "n:2"])
TOKENS = st.sampled_from(["t1", "t2", "t3"])
OPS = st.sampled_from([f"o{number}" for number in range(12)])
DELAYS = st.integers(0, 3).map(lambda units: units * UNIT_MS)
PHASES = st.sampled_from([None] * 8 + ["cancelling", "closed"])
OWN_MOVES = st.sampled_from([None, "wake", "keep", "timer", "wait", "end"])
OTHER_MOVES = st.lists(
    st.tuples(st.sampled_from(["n:1", "n:2", ""]), st.sampled_from(["ready", "wake"]), DELAYS),
    max_size=3,
)


class Answers(RuleBasedStateMachine):
    """Every rule asks both stores the same."""

    def __init__(self, client: Redis) -> None:
        super().__init__()
        client.flushall()
        self.client = client
        self.now_ms = 1_000_000_000
        self.handed_over = 0
        self.model = MemoryEventStore(lambda: self.now_ms)
        self.real = RedisEventStore(client)

    def both(self, call: Callable[[EventStore], object]) -> object:
        expected, found = (_outcome(lambda s=store: call(s)) for store in (self.model, self.real))
        assert expected == found
        return expected

    @rule(run=RUNS, op=OPS, digest=st.sampled_from(["d1", "d2"]))
    def request(self, run: str, op: str, digest: str) -> None:
        self._append(run, op, AsNew(digest), [("", "ready", 0)], None)

    @rule(run=RUNS, kind=KINDS, token=TOKENS, lease=DELAYS)
    def claim(self, run: str, kind: str, token: str, lease: int) -> None:
        self.both(lambda store: store.claim(run, f"{run}/{kind}", token, lease))

    @rule(
        run=RUNS,
        kind=KINDS,
        op=OPS,
        own=OWN_MOVES,
        others=OTHER_MOVES,
        delay=DELAYS,
        phase=PHASES,
        intent=st.booleans(),
        off=st.sampled_from([None] * 6 + ["token", "op", "inbox"]),
        events=st.integers(0, 2),
    )
    def append_by_task(
        self,
        run: str,
        kind: str,
        op: str,
        own: str | None,
        others: list[tuple[str, str, int]],
        delay: int,
        phase: str | None,
        intent: bool,
        off: str | None,
        events: int,
    ) -> None:
        writer = self._holder(f"{run}/{kind}", intent, off)
        moves = [move for move in others if move[0] != kind]
        moves += [(kind, own, delay)] if own else []
        self._append(run, op, writer, moves, phase, events)

    @rule(
        run=RUNS,
        at=st.integers(0, 5),
        kind=KINDS,
        to=st.sampled_from(["ready", "wake"]),
        own=st.sampled_from(["timer", "wait", "end"]),
        token=TOKENS,
        behind=st.sampled_from([None, None, 0, 0, 1]),
        off=st.sampled_from([None] * 8 + ["inbox"]),
        repeated=st.booleans(),
    )
    def hand_over(
        self,
        run: str,
        at: int,
        kind: str,
        to: str,
        own: str,
        token: str,
        behind: int | None,
        off: str | None,
        repeated: bool,
    ) -> None:
        """A holder lets go, and takes another task along."""
        if not (held := self._held()):
            self._append(run, "begun", AsNew("d1"), [("", "ready", 0)], None)
            self.both(lambda store: store.claim(run, f"{run}/", "t1", UNIT_MS))
            held = self._held() or [f"{run}/"]
        task = held[at % len(held)]
        run, _, own_kind = task.partition("/")
        row = self.model.row(run)
        self.handed_over += 1
        writer = self._holder(task, False, off)
        for _ in range(1 + repeated):
            self._append(
                run,
                f"h{self.handed_over}",
                writer,
                [(kind, to, UNIT_MS), (own_kind, own, UNIT_MS)],
                None,
                take=Take(f"{run}/{kind}", token, UNIT_MS),
                as_of=None if behind is None or row is None else row.version - behind,
            )

    def _held(self) -> list[str]:
        return sorted(name for name, task in self.model._tasks.items() if task.state == "leased")

    def _holder(self, task: str, intent: bool, off: str | None) -> ByTask:
        known = self.model._tasks.get(task)
        token, op, inbox = (known.token, known.op, known.inbox) if known else ("t1", "", 0)
        return ByTask(
            task,
            "other" if off == "token" else token,
            "other" if off == "op" else op,
            inbox + 1 if off == "inbox" else inbox,
            intent,
        )

    @rule(run=RUNS, op=OPS, behind=st.integers(0, 1), others=OTHER_MOVES, phase=PHASES)
    def append_by_person(
        self, run: str, op: str, behind: int, others: list[tuple[str, str, int]], phase: str | None
    ) -> None:
        row = self.model.row(run)
        version = (row.version if row else 0) - behind
        self._append(run, op, ByVersion(version), others, phase)

    @rule(
        run=RUNS,
        op=OPS,
        key=st.sampled_from(["cancel", "k 1", "k 2"]),
        receipt=st.booleans(),
        others=OTHER_MOVES,
        phase=PHASES,
    )
    def append_fact(
        self,
        run: str,
        op: str,
        key: str,
        receipt: bool,
        others: list[tuple[str, str, int]],
        phase: str | None,
    ) -> None:
        self._append(run, op, AsFact(key, receipt), others, phase)

    def _append(
        self,
        run: str,
        op: str,
        writer: Writer,
        moves: list[tuple[str, Any, int]],
        phase: Any,
        events: int = 1,
        take: Take | None = None,
        as_of: int | None = None,
    ) -> None:
        append = Append(
            run=run,
            op=op,
            writer=writer,
            events=(NewEvent(RunStarted()),) * events,
            moves=tuple(Move(f"{run}/{kind}", to, delay) for kind, to, delay in moves),
            phase=phase,
            take=take,
            as_of=as_of,
        )
        self.both(lambda store: store.append(append))

    @rule(run=RUNS, kinds=st.lists(KINDS, unique=True), token=TOKENS, lease=DELAYS)
    def renew(self, run: str, kinds: list[str], token: str, lease: int) -> None:
        held = [Held(run, f"{run}/{kind}", token) for kind in kinds]
        self.both(lambda store: store.renew(held, lease))

    @rule(run=RUNS, kind=KINDS, token=TOKENS)
    def give_back(self, run: str, kind: str, token: str) -> None:
        self.both(lambda store: store.give_back(Held(run, f"{run}/{kind}", token)))

    @rule(units=st.integers(1, 3))
    def let_time_pass(self, units: int) -> None:
        self.now_ms += units * UNIT_MS
        pass_time(self.client, units * UNIT_MS)

    @rule()
    def sweep(self) -> None:
        self.both(lambda store: store.sweep(resend_ms=UNIT_MS))

    @rule()
    def audit(self) -> None:
        self.both(lambda store: sorted(store.audit()))

    @invariant()
    def the_same_is_stored(self) -> None:
        for run in ("a", "b"):
            self.both(lambda store, run=run: store.row(run))
            self.both(lambda store, run=run: [_timeless(e) for e in store.read(run)])
        self.both(lambda store: [(e.run, e.version, e.count) for e in store.feed(0)])


def _outcome(call: Callable[[], object]) -> object:
    try:
        return _timeless(call())
    except (MulliganError, ValueError) as error:
        return type(error), str(error), getattr(error, "inbox", None)


def _timeless(answer: object) -> object:
    """The answer without the moments of its server."""
    match answer:
        case Appended():
            events = tuple(msgspec.structs.replace(event, time_ms=0) for event in answer.events)
            return msgspec.structs.replace(
                answer, now_ms=0, events=events, taken=_timeless(answer.taken)
            )
        case Claimed():
            return msgspec.structs.replace(answer, now_ms=0)
        case Swept(tasks=tasks, next_in_ms=next_in_ms):
            return sorted(tasks), next_in_ms and -(-next_in_ms // UNIT_MS)
        case msgspec.Struct() if hasattr(answer, "time_ms"):
            return msgspec.structs.replace(answer, time_ms=0)
        case _:
            return answer


@pytest.mark.server
def test_the_scripts_answer_as_their_model_does(server: ValkeyServer) -> None:
    with server.client() as client:
        run_state_machine_as_test(
            lambda: Answers(client),
            settings=settings(
                max_examples=60,
                stateful_step_count=40,
                suppress_health_check=list(HealthCheck),
                derandomize=False,
            ),
        )
