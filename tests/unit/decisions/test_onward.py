"""What whoever lets go of a task decides in the place of others, and what it leaves to them."""

from __future__ import annotations

import pytest

from mulligan.decisions.decision import CallFunction, FunctionOutcome, Release
from mulligan.decisions.onward import MOST_BESIDE
from mulligan.events.facts import (
    Cause,
    NodeFailed,
    NodePaused,
    NodeReady,
    NodeStarted,
    RunStarted,
)
from mulligan.events.payload import Payload
from mulligan.events.store import Move
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import Given, facts, plan_of

AGENT = AgentPlan(prompt="Do it.", model="m", output_schema={"type": "object"}, recovery_limit=0)


def node(name: str, *needs: str, work: AgentPlan | None = None) -> NodePlan:
    function = FunctionPlan(
        call=CodeRef(path=f"steps:{name}", digest=""),
        arguments=(),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    return NodePlan(id=name, work=work or function, needs=needs)


def at_work(*plans: NodePlan, nodes: tuple[str, ...]) -> Given:
    """A run whose `nodes` are worked by tasks of their own."""
    given = Given(plan_of(*plans)).happened(RunStarted())
    for name in nodes:
        given.happened(NodeReady(), node=name).happened(NodeStarted(), node=name, attempt=1)
    return given


def done(name: str) -> FunctionOutcome:
    return FunctionOutcome(node=name, output=Payload.of(1))


def test_the_next_of_a_chain_beside_others_begins_in_the_same_append() -> None:
    given = at_work(node("held"), node("a"), node("b", "a"), nodes=("held", "a"))

    decision = given.onward("n:a", done("a"))

    assert ["NodeCompleted a", "NodeReady b", "NodeStarted b"] == facts(decision)
    assert isinstance(decision.effect, CallFunction)
    assert "b" == decision.effect.node
    assert ("run/n:b", given.state.version) == (decision.follows, decision.as_of)
    assert {("run/n:b", "ready"), ("run/n:a", "end")} == {(m.task, m.to) for m in decision.moves}


def test_of_several_that_are_ready_one_is_gone_on_with() -> None:
    given = at_work(node("held"), node("a"), node("b", "a"), node("c", "a"), nodes=("held", "a"))

    decision = given.onward("n:a", done("a"))

    assert ["NodeCompleted a", "NodeReady b", "NodeReady c", "NodeStarted b"] == facts(decision)
    assert [("run/n:b", "ready"), ("run/n:c", "ready"), ("run/n:a", "end")] == [
        (move.task, move.to) for move in decision.moves
    ]


def test_the_runs_own_task_goes_on_with_the_first_that_it_makes_ready() -> None:
    given = Given(plan_of(node("a"), node("b"))).happened(RunStarted())

    decision = given.onward()

    assert ["NodeReady a", "NodeReady b", "NodeStarted a"] == facts(decision)
    assert ("run/n:a", Release("wait")) == (decision.follows, decision.release)


def test_where_others_are_still_needed_nobody_is_woken() -> None:
    given = at_work(node("a"), node("b"), node("join", "a", "b"), nodes=("a", "b"))

    decision = given.onward("n:a", done("a"))

    assert ["NodeCompleted a"] == facts(decision)
    assert (Move("run/n:a", "end"),) == decision.moves
    assert (None, given.state.version) == (decision.follows, decision.as_of)


def test_the_last_of_several_goes_on_as_the_runs_own_task() -> None:
    given = at_work(node("a"), node("b"), node("join", "a", "b"), nodes=("a", "b"))
    given.then("n:b", done("b"))

    decision = given.onward("n:a", done("a"))

    assert ["NodeCompleted a", "NodeReady join", "NodeStarted join"] == facts(decision)
    assert "run/" == decision.follows
    assert isinstance(decision.effect, CallFunction)
    ready = decision.events[1].data
    assert isinstance(ready, NodeReady)
    assert ready.carried


def test_the_runs_end_is_left_to_its_own_task() -> None:
    given = at_work(node("a"), node("b"), nodes=("a", "b"))
    given.then("n:b", done("b"))

    decision = given.onward("n:a", done("a"))

    assert ["NodeCompleted a"] == facts(decision)
    assert ("run/", None, None) == (decision.follows, decision.as_of, decision.phase)


def test_an_agent_begins_by_itself_since_it_may_have_to_wait_for_its_turn() -> None:
    given = at_work(node("held"), node("a"), node("b", "a", work=AGENT), nodes=("held", "a"))

    decision = given.onward("n:a", done("a"))

    assert ["NodeCompleted a", "NodeReady b"] == facts(decision)
    assert ("run/n:b", None) == (decision.follows, decision.effect)


def test_beside_many_the_runs_own_task_decides_for_all_that_have_ended() -> None:
    names = [f"n{number}" for number in range(MOST_BESIDE + 2)]
    given = at_work(*map(node, names), node("next", "n0"), nodes=tuple(names))

    decision = given.onward("n:n0", done("n0"))

    assert ["NodeCompleted n0"] == facts(decision)
    assert ("run/", None) == (decision.follows, decision.as_of)


def test_after_a_failure_nothing_new_begins() -> None:
    given = at_work(node("a"), node("b"), node("next", "b"), nodes=("a", "b"))
    given.happened(NodeFailed(code="failed", message=""), node="a")

    decision = given.onward("n:b", done("b"))

    assert ["NodeCompleted b"] == facts(decision)


def test_a_node_that_waits_for_a_person_pauses_the_run_itself() -> None:
    given = at_work(node("a"), node("b"), nodes=("a", "b"))
    given.happened(
        NodePaused(reason="reconciliation_required", invocation="b", detail=""), node="b"
    )

    failed = FunctionOutcome(node="a", error=Cause(kind="stopped", message=""), unknown=True)
    decision = given.onward("n:a", failed)

    assert ["NodePaused a", "RunPaused"] == facts(decision)
    assert (Move("run/n:a", "wait"),) == decision.moves


@pytest.mark.parametrize("task", ["", "n:a"])
def test_what_is_not_let_go_of_is_decided_as_it_is(task: str) -> None:
    given = Given(plan_of(node("a"))).happened(RunStarted())
    if task:
        given.happened(NodeReady(), node="a")

    assert given.onward(task) == given.decide(task)
