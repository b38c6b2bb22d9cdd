"""Nodes that wait for signals, and what is sent to them: given a history, what follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as given_that
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mulligan.decisions import people, signals
from mulligan.decisions.decision import Release
from mulligan.errors import InvalidInput
from mulligan.events.facts import (
    NodeReady,
    NodeStarted,
    RunCancelRequested,
    RunStarted,
    SignalAwaited,
    SignalReceived,
)
from mulligan.events.payload import Payload
from mulligan.events.store import ByVersion
from mulligan.projections.history import problems
from mulligan.projections.open_requests import open_requests
from mulligan.projections.rows import SUMMARIES
from mulligan.projections.run_view import view
from mulligan.projections.trace import fold as fold_trace
from mulligan.schemas.plan import NodePlan, WaitPlan
from mulligan.testing.given import Given, facts, plan_of

PAID = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


def waits(node: str = "a", **plan: Any) -> NodePlan:
    return NodePlan(id=node, work=WaitPlan(signal="paid", **plan))


def begun(*nodes: NodePlan, **limits: int) -> Given:
    """A run of these nodes, each ready."""
    given = Given(plan_of(*(nodes or (waits(),)), **limits)).happened(RunStarted())
    for node in nodes or (waits(),):
        given.happened(NodeReady(), node.id)
    return given


def send(given: Given, data: Any = None, key: str = "k1", name: str = "paid") -> Any:
    """The append of a signal; what it says happens."""
    append = people.signal(given.state, f"op-{key}", name, key, data, by="ann")
    for event in append.events if append is not None else ():
        given.happened(event.data)
    return append


def test_node_that_waits_says_so_and_its_run_is_paused() -> None:
    given = begun()
    decision = given.then("n:a")
    assert facts(decision) == ["NodeStarted a", "SignalAwaited a", "NodePaused a"]
    assert decision.release == Release("wait")
    assert facts(given.then()) == ["RunPaused"]
    assert (given.state.status, given.state.reason) == ("paused", "awaiting_signal")
    (asked,) = open_requests(given.state)
    assert (asked.kind, asked.id, asked.signal) == ("signal", "a", "paid")
    shown = view(given.state, lambda payload: payload.value)
    assert "paid" in shown.why
    assert shown.waits_for == (asked,)
    trace = fold_trace("run", given.log)
    assert "mulligan signal run paid" in trace.advice[0]
    assert any("waits for the signal 'paid'" in step.text for step in trace.steps)


def test_signal_wakes_the_node_which_ends_with_its_data() -> None:
    given = begun()
    given.then("n:a")
    given.then()
    append = send(given, {"sum": 3})
    assert {move.task for move in append.moves} == {"run/n:a", "run/"}
    assert append.writer == ByVersion(given.state.version - 1)
    assert given.state.status == "running"
    assert open_requests(given.state) == ()
    assert facts(given.then("n:a")) == ["NodeCompleted a"]
    assert facts(given.then()) == ["RunCompleted"]
    assert given.state.output is not None
    assert given.state.output.value == {"sum": 3}
    assert not problems(given.log)


def test_signal_that_came_before_is_kept() -> None:
    given = begun()
    append = send(given, 1)
    assert append.moves == ()
    decision = given.then("n:a")
    assert facts(decision) == ["NodeStarted a", "SignalAwaited a", "NodeCompleted a"]


def test_the_same_key_is_one_signal() -> None:
    given = begun()
    assert send(given, 1) is not None
    assert send(given, 1) is None
    with pytest.raises(InvalidInput, match="another signal with the key 'k1'"):
        send(given, 2)
    given.then("n:a")
    given.then()
    assert given.state.status == "completed"
    assert send(given, 1) is None, "known for ever"


def test_signal_is_recorded_once_even_if_the_log_holds_it_twice() -> None:
    given = begun(waits("a"), waits("b"))
    given.then("n:a")
    given.then("n:b")
    for _ in range(2):
        given.happened(SignalReceived(name="paid", key="k", data=Payload.of(1)))
    assert given.state.nodes["a"].signal == "k"
    assert given.state.nodes["b"].signal is None


def test_who_waits_longest_takes_the_oldest() -> None:
    given = begun(waits("a"), waits("b"))
    given.then("n:b")
    given.then("n:a")
    send(given, 1, "k1")
    send(given, 2, "k2")
    assert (given.state.nodes["b"].signal, given.state.nodes["a"].signal) == ("k1", "k2")


def test_no_signal_in_time_is_an_honest_failure() -> None:
    given = begun(waits(timeout_ms=5_000))
    decision = given.then("n:a")
    assert decision.release == Release("timer", 5_000)
    assert given.at(3_000).then("n:a").release == Release("timer", 3_000)
    given.then()
    assert facts(given.at(6_000).then("n:a")) == ["SignalTimedOut a", "NodeFailed a"]
    assert facts(given.then()) == ["RunFailed"]
    assert given.state.failure is not None
    assert given.state.failure.kind == "signal_timeout"
    assert "'paid' came within 5 s" in given.state.failure.message


@pytest.mark.parametrize("default", [None, {"sum": 0}])
def test_no_signal_in_time_is_the_declared_default(default: Any) -> None:
    given = begun(waits(timeout_ms=5_000, default=default))
    given.then("n:a")
    given.then()
    assert given.state.status == "paused"
    assert facts(given.at(6_000).then("n:a")) == ["SignalTimedOut a", "NodeCompleted a"]
    assert given.state.status == "running"
    assert given.state.nodes["a"].output == Payload.of(default)


def test_signal_before_the_timeout_was_noticed_counts() -> None:
    given = begun(waits(timeout_ms=5_000))
    given.then("n:a")
    given.at(7_000)
    send(given, 1)
    assert facts(given.then("n:a")) == ["NodeCompleted a"]


def test_workflows_deadline_ends_the_wait_whatever_the_default() -> None:
    given = begun(waits(timeout_ms=60_000, default=1), deadline_ms=2_000)
    assert given.then("n:a").release == Release("timer", 2_000)
    assert facts(given.at(3_000).then("n:a")) == ["SignalTimedOut a", "NodeFailed a"]
    assert given.state.nodes["a"].failure is not None
    assert given.state.nodes["a"].failure.kind == "deadline_exceeded"


def test_run_that_carries_the_wait_goes_on() -> None:
    given = Given(plan_of(waits(timeout_ms=5_000)))
    decision = given.then()
    assert facts(decision)[-2:] == ["NodePaused a", "RunPaused"]
    assert decision.release == Release("timer", 5_000)
    assert {move.task for move in send(given, 1).moves} == {"run/"}
    assert facts(given.then()) == ["NodeCompleted a", "RunCompleted"]


def test_other_pauses_stay() -> None:
    given = begun(waits("a"), waits("b"))
    given.then("n:a")
    given.then("n:b")
    given.then()
    send(given, 1)
    given.then("n:a")
    assert facts(given.then()) == ["RunPaused"], "b waits still"
    assert given.state.reason == "awaiting_signal"


def test_data_that_do_not_fit_are_refused_before_and_while_it_waits() -> None:
    given = begun(waits(schema=PAID))
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"schema of node 'a': \$\.sum: type is not met"):
            send(given, {"sum": "canary"})
        given.then("n:a")
    assert "canary" not in repr(given.log)


def test_what_nobody_waits_for_is_refused() -> None:
    given = begun()
    with pytest.raises(InvalidInput, match="did you mean 'paid'"):
        send(given, name="payd")
    given.then("n:a")
    send(given, 1)
    given.then("n:a")
    with pytest.raises(InvalidInput, match="any more"):
        send(given, 2, "k2")
    given.then()
    with pytest.raises(InvalidInput, match="is completed"):
        send(given, 2, "k2")


def test_cancelling_run_refuses_signals() -> None:
    given = begun().happened(RunCancelRequested())
    with pytest.raises(InvalidInput, match="is cancelling"):
        send(given)


def test_too_many_that_nobody_takes_are_refused() -> None:
    given = begun()
    for number in range(signals.MOST_UNTAKEN):
        given.happened(SignalReceived(name="paid", key=str(number), data=Payload.of(None)))
    with pytest.raises(InvalidInput, match="wait for a node to take them"):
        send(given)


def test_parked_node_is_not_let_go_by_a_signal() -> None:
    from mulligan.decisions.parking import parked
    from mulligan.events.facts import RunResumed

    given = begun()
    given.then("n:a")
    for event in parked(given.state, "run/n:a", "lost"):
        given.happened(event.data, event.node, event.attempt)
    send(given, 1)
    assert given.then("n:a").release == Release("wait")
    given.happened(RunResumed(target="a"))
    assert facts(given.then("n:a")) == ["NodeCompleted a"]


@hypothesis_settings(max_examples=60, deadline=None)
@given_that(st.lists(st.sampled_from(["a", "b", "c", "send", "send", "again"]), max_size=12))
def test_every_signal_is_taken_once_whatever_comes_first(steps: list[str]) -> None:
    given = begun(waits("a"), waits("b"), waits("c"))
    sent = 0
    for step in steps:
        if step == "send" and sent < 3:
            sent += 1
            send(given, sent, f"k{sent}")
        elif step == "again" and sent:
            assert send(given, sent, f"k{sent}") is None
        elif step in given.state.nodes:
            given.then(f"n:{step}")
    for node in ("a", "b", "c"):
        for _ in range(2):
            given.then(f"n:{node}")
    taken = [one.taken_by for one in given.state.signals.values()]
    assert None not in taken
    assert len(set(taken)) == sent
    ended = [node for node in given.state.nodes.values() if node.status == "completed"]
    assert {node.output.value for node in ended if node.output} == set(range(1, sent + 1))
    assert not problems(given.log)
    row = SUMMARIES.fold("run", given.log)
    assert row.nodes.get("completed", 0) == sent


def test_facts_about_signals_name_their_node() -> None:
    given = begun().happened(NodeStarted(), "a", 1).happened(SignalAwaited(name="paid"), "a", 1)
    assert given.state.awaits == {"a": "paid"}
