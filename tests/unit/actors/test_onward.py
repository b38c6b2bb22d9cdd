"""
A thread that goes on with what follows from its task: what the log refuses of that, and what can't
be done here, is left to whoever it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mulligan.actors import session
from mulligan.actors.session import work
from mulligan.errors import StoreFull, StoreUnavailable
from mulligan.events.envelope import Envelope
from mulligan.events.facts import NodeCompleted, NodeStarted
from mulligan.events.store import Append, Appended, ByTask, EventStore
from mulligan.projections.history import problems
from mulligan.schemas.plan import CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory


class Watched:
    """A log that does something, once, at the append that starts a node, and keeps all appends."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.appends: list[Append] = []
        self.claims: list[str] = []
        self.at_start_of: dict[str, Callable[[], None]] = {}
        self.lost_replies: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, run: str, task: str, *more: Any) -> Any:
        self.claims.append(task)
        return self._store.claim(run, task, *more)

    def append(self, append: Append) -> Appended:
        self.appends.append(append)
        started = {e.node for e in append.events if isinstance(e.data, NodeStarted)}
        for node in started & self.at_start_of.keys():
            self.at_start_of.pop(node or "")()
        appended = self._store.append(append)
        if started & self.lost_replies:
            self.lost_replies -= started  # type: ignore[arg-type]
            raise StoreUnavailable("the reply was lost")
        return appended


def node(name: str, *needs: str) -> NodePlan:
    function = FunctionPlan(
        call=CodeRef(path=f"steps:{name}", digest=""),
        arguments=(),
        effect="write",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    return NodePlan(id=name, work=function, needs=needs)


CHAIN = plan_of(node("a"), node("held"), node("b", "a"), node("c", "b"), node("join", "c", "held"))
"""`a`, `b` and `c` follow one another while `held` is ready and waits for a thread."""


def world(*, lacks: str = "") -> tuple[InMemory, Watched, list[str]]:
    calls: list[str] = []
    names = {"a", "held", "b", "c", "join"} - {lacks}
    code = {f"steps:{name}": (lambda name=name: calls.append(name)) for name in names}
    made: list[Watched] = []

    def watched(store: EventStore) -> Any:
        made.append(Watched(store))
        return made[0]

    return InMemory(code=code, meddle=watched), made[0], calls


def appended_together(events: list[Envelope]) -> list[list[str]]:
    """What stands in the log together, by kind and node."""
    appends: dict[str, list[str]] = {}
    for event in events:
        op = event.id.rpartition(".")[0]
        appends.setdefault(op, []).append(f"{event.type} {event.node or ''}".strip())
    return list(appends.values())


def test_a_chain_beside_others_is_an_append_a_step_and_no_wake_ups() -> None:
    made, log, calls = world()

    state = made.run(CHAIN)

    assert ("completed", ["a", "b", "c", "held", "join"]) == (state.status, calls)
    assert ["NodeCompleted a", "NodeReady b", "NodeStarted b"] in appended_together(made.events())
    assert ["NodeCompleted b", "NodeReady c", "NodeStarted c"] in appended_together(made.events())
    assert ["run/", "run/n:held"] == log.claims
    assert [] == problems(made.events())


def test_each_task_is_worked_under_a_lease_of_its_own() -> None:
    made, log, _ = world()

    made.run(CHAIN)

    tokens = {w.task: w.token for w in (one.writer for one in log.appends) if isinstance(w, ByTask)}
    assert {"run/", "run/n:a", "run/n:b", "run/n:c", "run/n:held"} == tokens.keys()
    assert len(tokens) == len(set(tokens.values()))


def test_where_another_ends_meanwhile_the_join_begins_once() -> None:
    made, log, calls = world()

    def meanwhile() -> None:
        work(made._runtime, "run/n:held")

    log.at_start_of["b"] = meanwhile

    state = made.run(CHAIN)

    assert ("completed", 1) == (state.status, calls.count("join"))
    assert ["a", "held", "b", "c", "join"] == calls
    assert [] == problems(made.events())


def test_a_lost_reply_costs_neither_the_lease_nor_a_second_call() -> None:
    made, log, calls = world()
    log.lost_replies = {"b"}

    state = made.run(CHAIN)

    assert ("completed", ["a", "b", "c", "held", "join"]) == (state.status, calls)
    assert 1_000 == made.now_ms, "nobody waited for a lease to end"


def test_where_the_code_of_what_follows_is_missing_what_was_done_is_recorded() -> None:
    made, _, calls = world(lacks="b")

    state = made.run(CHAIN)

    assert ["a", "held"] == calls
    assert ("paused", "parked") == (state.status, state.reason)
    assert ["completed"] * 2 == [state.nodes[name].status for name in ("a", "held")]
    assert "steps:b" in (state.detail or "")


def test_where_there_is_no_room_for_what_follows_what_was_done_is_recorded() -> None:
    made, log, calls = world()

    def full() -> None:
        raise StoreFull("no room for new work")

    log.at_start_of["b"] = full

    state = made.run(CHAIN)

    assert ("completed", 1) == (state.status, calls.count("a"))
    with_result = [
        one for one in log.appends if any(isinstance(e.data, NodeCompleted) for e in one.events)
    ]
    assert {"a"} == {e.node for e in with_result[1].events}, "by itself, once there was no room"


def test_after_its_turn_a_thread_asks_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "TURN_S", 0.0)
    made, log, calls = world()

    state = made.run(CHAIN)

    assert "completed" == state.status
    assert {"a", "b", "c", "held", "join"} == set(calls)
    assert {"run/n:a", "run/n:held"} <= set(log.claims)
    assert all(one.take is None for one in log.appends)


def test_a_worker_that_is_killed_as_it_goes_on_loses_one_lease() -> None:
    made, log, calls = world()

    class Killed(BaseException):
        pass

    def killed() -> None:
        raise Killed

    log.at_start_of["c"] = killed
    with pytest.raises(Killed):
        made.run(CHAIN)
    made.work()

    assert "reconciliation_required" == made.state().reason, "whether `b` was done nobody can tell"
    assert ["a", "b", "held"] == calls
