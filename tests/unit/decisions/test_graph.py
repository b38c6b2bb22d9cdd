"""Which nodes are ready, and when a run ends or has to wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mulligan.decisions import people
from mulligan.decisions.decision import CallFunction, FunctionOutcome, Release
from mulligan.errors import InvalidInput, ToolError
from mulligan.events.facts import (
    Cause,
    EffectClass,
    NodeCompleted,
    NodeFailed,
    NodePaused,
    NodeReady,
    NodeStarted,
    RunCancelRequested,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStarted,
)
from mulligan.events.payload import Payload
from mulligan.events.store import ByVersion, Move
from mulligan.projections import trace
from mulligan.projections.history import problems
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import Given, facts, plan_of
from mulligan.testing.in_memory import InMemory


def calls(*arguments: str, effect: EffectClass = "idempotent", attempts: int = 1) -> FunctionPlan:
    return FunctionPlan(
        call=CodeRef(path="steps:step", digest=""),
        arguments=arguments,
        effect=effect,
        attempts=attempts,
        backoff_ms=100,
        backoff_max_ms=150,
    )


def step(
    node: str,
    *needs: str,
    when: str | None = None,
    for_each: str | None = None,
    work: FunctionPlan | None = None,
) -> NodePlan:
    return NodePlan(id=node, needs=needs, when=when, for_each=for_each, work=work or calls(*needs))


def output(node: str, value: object = 1) -> FunctionOutcome:
    return FunctionOutcome(node=node, output=Payload.of(value))


def completed(given: Given, node: str, value: object = 1) -> Given:
    return given.happened(NodeCompleted(output=Payload.of(value)), node=node)


def test_first_claim_starts_the_run_and_carries_a_node_that_is_ready_alone() -> None:
    decision = Given(plan_of(step("a"), step("b", "a"))).decide()

    assert ["RunStarted", "NodeReady a", "NodeStarted a"] == facts(decision)
    assert isinstance(decision.effect, CallFunction)
    assert () == decision.moves


def test_a_chain_takes_one_append_a_step() -> None:
    given = Given(plan_of(step("a"), step("b", "a")))
    given.then()

    decision = given.then(outcome=output("a", {"x": 1}))

    assert ["NodeCompleted a", "NodeReady b", "NodeStarted b"] == facts(decision)
    assert isinstance(decision.effect, CallFunction)
    assert {"a": {"x": 1}} == decision.effect.arguments


def test_a_need_that_is_named_twice_is_one() -> None:
    """As a plan may that no workflow was checked for."""
    given = Given(plan_of(step("a"), step("b", "a", "a")))
    given.then()

    assert ["NodeCompleted a", "NodeReady b", "NodeStarted b"] == facts(
        given.then(outcome=output("a"))
    )


def test_the_run_completes_with_the_output_of_its_last_node() -> None:
    given = Given(plan_of(step("a"), step("b", "a")))
    given.then()
    given.then(outcome=output("a"))

    decision = given.then(outcome=output("b", "done"))

    assert ["NodeCompleted b", "RunCompleted"] == facts(decision)
    assert decision.events[-1].data == RunCompleted(output=Payload.of("done"))
    assert ("closed", Release("end")) == (decision.phase, decision.release)


def test_nodes_that_are_ready_together_have_tasks_of_their_own() -> None:
    decision = Given(plan_of(step("a"), step("b"))).decide()

    assert ["RunStarted", "NodeReady a", "NodeReady b"] == facts(decision)
    assert ["run/n:a", "run/n:b", "run/"] == [move.task for move in decision.moves]
    assert Release("wait") == decision.release


def test_a_node_ends_its_task_and_wakes_the_run() -> None:
    given = Given(plan_of(step("a"), step("b")))
    given.then()
    given.then("n:a")

    decision = given.then("n:a", output("a"))

    assert ["NodeCompleted a"] == facts(decision)
    assert [("run/", "wake"), ("run/n:a", "end")] == [(m.task, m.to) for m in decision.moves]


def test_a_join_waits_for_all_that_it_needs() -> None:
    given = Given(plan_of(step("a"), step("b"), step("j", "a", "b")))
    given.then()
    completed(given, "a")

    assert [] == facts(given.decide())

    completed(given, "b")

    assert ["NodeReady j", "NodeStarted j"] == facts(given.decide())


def test_a_false_condition_skips_a_node_and_what_needs_nothing_else() -> None:
    given = Given(
        plan_of(step("a"), step("b", "a", when="a.go"), step("c", "b"), step("d", "a", "b"))
    )
    given.then()

    decision = given.then(outcome=output("a", {"go": False}))

    assert ["NodeCompleted a", "NodeSkipped b", "NodeSkipped c"] == facts(decision)[:3]
    assert isinstance(decision.effect, CallFunction)
    assert {"a": {"go": False}, "b": None} == decision.effect.arguments


def test_a_condition_that_can_not_be_worked_out_fails_its_node() -> None:
    given = Given(plan_of(step("a"), step("b", "a", when="a > 3")))
    given.then()

    decision = given.then(outcome=output("a", "text"))

    failed = [event.data for event in decision.events if isinstance(event.data, NodeFailed)]
    assert ["expression_failed"] == [fact.code for fact in failed]
    assert isinstance(decision.events[-1].data, RunFailed)


def test_for_each_makes_an_instance_an_item_and_its_output_keeps_their_order() -> None:
    each = calls("item", "index")
    given = Given(plan_of(step("a"), step("p", "a", for_each="a.items", work=each)))
    given.then()

    decision = given.then(outcome=output("a", {"items": ["x", "y"]}))

    assert ["NodeCompleted a", "NodeReady p", "NodeReady p[0]", "NodeReady p[1]"] == facts(decision)
    effect = given.then("n:p[1]").effect
    assert isinstance(effect, CallFunction)
    assert {"item": "y", "index": 1} == effect.arguments
    given.then("n:p[1]", output("p[1]", "Y"))
    given.then("n:p[0]")
    given.then("n:p[0]", output("p[0]", "X"))

    assert given.then().events[-1].data == RunCompleted(output=Payload.of(["X", "Y"]))


def test_for_each_of_nothing_completes_with_an_empty_list() -> None:
    given = Given(plan_of(step("a"), step("p", "a", for_each="a")))
    given.then()

    decision = given.then(outcome=output("a", []))

    assert decision.events[-1].data == RunCompleted(output=Payload.of([]))


def test_a_wide_for_each_is_made_in_batches_that_fit_an_append() -> None:
    given = Given(plan_of(step("a"), step("p", "a", for_each="a")))
    given.then()

    made = len(given.then(outcome=output("a", list(range(1_500)))).events)
    appends = 1
    while (decision := given.then()).release is None:
        made, appends = made + len(decision.events), appends + 1
        assert len(decision.events) <= 1_000
    made += len(decision.events)

    assert 1 + 1 + 1_500 == made
    assert 1_500 == given.state.active


def test_a_failure_starts_nothing_new_and_fails_the_run_when_the_rest_has_ended() -> None:
    given = Given(plan_of(step("a"), step("b"), step("c", "b")))
    given.then()
    given.then("n:b")
    given.then("n:a")
    given.then("n:a", FunctionOutcome(node="a", error=Cause(kind="boom", message="no")))

    assert Release("wait") == given.then().release
    given.then("n:b", output("b"))
    decision = given.then()

    assert ["NodeCancelled c", "RunFailed"] == facts(decision)
    assert decision.events[-1].data == RunFailed(code="boom", message="a: no", failed_node="a")


def test_a_node_that_had_not_started_is_cancelled_after_a_failure() -> None:
    given = Given(plan_of(step("a"), step("b")))
    given.then()
    given.happened(NodeFailed(code="boom", message="no"), node="a")

    assert ["NodeCancelled b"] == facts(given.decide("n:b"))


def test_the_run_pauses_with_the_reason_of_its_nodes_when_nothing_else_moves() -> None:
    given = Given(plan_of(step("a"), step("b")))
    given.then()
    given.happened(NodePaused(reason="exhausted", invocation="a"), node="a")
    assert [] == facts(given.decide())
    completed(given, "b")

    decision = given.then()

    assert [RunPaused(reason="exhausted", detail="node a")] == [e.data for e in decision.events]
    assert [] == facts(given.decide()), "woken again, it says nothing twice"


def test_a_failed_function_is_tried_again_after_its_backoff() -> None:
    given = Given(plan_of(step("a", work=calls(attempts=3))))
    given.then()
    error = FunctionOutcome(node="a", error=Cause(kind="boom", message="no"))

    assert Release("timer", 100) == given.then(outcome=error).release
    assert Release("timer", 60) == given.at(1_040).decide().release, "a doubled message is early"
    again = given.at(1_100).then()
    assert ["TimerFired a", "NodeStarted a"] == facts(again)
    assert 2 == given.state.nodes["a"].attempt
    assert Release("timer", 150) == given.then(outcome=error).release
    given.at(1_250).then()

    assert ["NodeFailed a", "RunFailed"] == facts(given.then(outcome=error))


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_rec31_a_function_left_by_a_lost_worker_is_called_again_as_the_same_attempt(
    effect: EffectClass,
) -> None:
    given = Given(plan_of(step("a", work=calls(effect=effect))))
    given.then()

    decision = given.decide()

    assert [NodeStarted()] == [event.data for event in decision.events]
    assert [1] == [event.attempt for event in decision.events]
    assert isinstance(decision.effect, CallFunction)


def test_rec31_a_write_function_left_by_a_lost_worker_is_never_called_again() -> None:
    given = Given(plan_of(step("a", work=calls(effect="write"))))
    given.then()

    decision = given.then()

    assert ["NodePaused a", "RunPaused"] == facts(decision)
    assert "reconciliation_required" == given.state.reason
    assert decision.effect is None
    assert [] == facts(given.decide())


def test_rec31_a_write_function_that_can_t_tell_pauses_at_once_and_its_word_is_kept() -> None:
    """Whoever has to say what became of it reads what the function itself could say."""

    def publish() -> None:
        raise ToolError("lost", "the server took it and never answered", unknown=True)

    world = InMemory(code={"steps:step": publish})
    state = world.run(plan_of(step("a", work=calls(effect="write", attempts=3))))

    assert ("paused", "reconciliation_required") == (state.status, state.reason)
    (paused,) = [one.data for one in world.events() if isinstance(one.data, NodePaused)]
    assert "the server took it and never answered" == paused.detail
    assert 1_000 == world.now_ms, "nobody waited for the end of its lease"
    assert [] == problems(world.events())


def lost_write_function() -> Given:
    given = Given(plan_of(step("a", work=calls(effect="write"))))
    given.then()
    given.then()
    assert "reconciliation_required" == given.state.reason
    return given


def test_rec31_a_late_success_of_a_write_function_ends_its_node_and_nobody_need_be_asked() -> None:
    given = lost_write_function()

    late = people.late(given.state, "op", output("a", 7), taken=True)

    assert late is not None
    assert ByVersion(given.state.version) == late.writer, "a node ends once"
    assert "run/" in [move.task for move in late.moves]
    for event in late.events:
        given.happened(event.data, event.node)
    assert ["RunCompleted"] == facts(given.then())
    assert Payload.of(7) == given.state.output
    assert people.late(given.state, "op", output("a", 8), taken=True) is None
    assert [] == problems(given.log)


def test_rec31_a_late_failure_of_a_write_function_is_evidence_for_whoever_is_asked() -> None:
    """It may be that of a call before: a person may have had it called again."""
    given = lost_write_function()
    error = Cause(kind="not_run", message="the lease on its task was lost before it began")

    late = people.late(given.state, "op", FunctionOutcome(node="a", error=error), taken=True)

    assert late is not None
    for event in late.events:
        given.happened(event.data, event.node)
    assert "reconciliation_required" == given.state.reason
    assert any("before it began" in one.text for one in trace.fold("run", given.log).steps)
    assert [] == problems(given.log)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_late_result_of_a_function_that_is_called_again_anyway_says_nothing(
    effect: EffectClass,
) -> None:
    given = Given(plan_of(step("a", work=calls(effect=effect))))
    given.then()

    assert people.late(given.state, "op", output("a"), taken=True) is None


@pytest.mark.parametrize(
    ("outcome", "then", "status"),
    [
        ("succeeded", ["RunCompleted"], "completed"),
        ("failed", ["RunFailed"], "failed"),
        ("retry", ["NodeStarted a"], "running"),
    ],
)
def test_rec31_a_person_says_what_became_of_a_lost_write_function(
    outcome: Any, then: list[str], status: str
) -> None:
    given = lost_write_function()

    said = people.reconcile(given.state, "op", "a", outcome, by="ann", result=7)
    for event in said.events:
        given.happened(event.data, event.node)

    assert ByVersion(given.state.version - len(said.events)) == said.writer, "a node ends once"
    assert "run/" in [move.task for move in said.moves]
    assert then == facts(given.then())
    assert status == given.state.status
    assert (Payload.of(7) == given.state.output) == (outcome == "succeeded")
    assert [] == problems(given.log)
    with pytest.raises(InvalidInput, match="no call 'a'"):
        people.reconcile(given.state, "op", "a", outcome, by="ann")


def test_rec27_a_cancelled_run_cancels_its_open_nodes_in_the_same_append() -> None:
    given = Given(plan_of(step("a"), step("b"), step("c", "a", "b")))
    given.then()
    given.happened(RunCancelRequested())

    decision = given.then()

    nodes = ["NodeCancelled a", "NodeCancelled b", "NodeCancelled c"]
    assert [*nodes, "RunCancelled"] == facts(decision)
    assert "closed" == decision.phase


def test_an_ended_run_ignores_a_late_wake_up() -> None:
    given = Given(plan_of(step("a"))).happened(RunStarted())
    given.happened(NodeReady(carried=True), node="a")
    completed(given, "a").happened(RunCompleted(output=Payload.of(1)))

    decision = given.decide()

    assert ([], Release("end")) == (facts(decision), decision.release)
    assert (Move("run/", "end"),) == decision.moves


def test_a_node_that_is_cancelled_wakes_the_run() -> None:
    given = Given(plan_of(step("a"), step("b")))
    given.then()
    given.happened(NodeFailed(code="boom", message="no"), node="a")

    decision = given.then("n:b")

    assert ("run/", "wake") in [(move.task, move.to) for move in decision.moves]
    assert ["NodeCancelled", "RunFailed"] == [
        fact.split()[0] for fact in ["NodeCancelled b", *facts(given.then())]
    ]


def wide(width: int) -> Given:
    """A run whose `for_each` node has so many instances, all of them ready."""
    given = Given(plan_of(step("part", for_each="input"), step("join", "part")), [1] * width)
    while given.state.nodes["part"].readied != width:
        given.then()
    return given


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_very_many_open_nodes_are_closed_in_several_appends(end: str) -> None:
    """REC-27: one append holds 1,000 events; more nodes than that must not keep a run open."""
    given = wide(1_500)
    if end == "cancel":
        given.happened(RunCancelRequested(reason=""))
    else:
        for index in range(1_499):
            paused = NodePaused(reason="parked", invocation=f"part[{index}]", detail="")
            given.happened(paused, node=f"part[{index}]")
        given.happened(NodeFailed(code="failed", message=""), node="part[1499]")

    decisions = [given.then()]
    while decisions[-1].release is None:
        decisions.append(given.then())

    assert max(len(decision.events) for decision in decisions) < 1_000
    assert {"cancel": "cancelled", "fail": "failed"}[end] == given.state.status
    assert [None] * (len(decisions) - 1) + ["closed"] == [one.phase for one in decisions]
    assert [] == problems(given.log)


MANY = 1_500
FEW_S = 1.5
"""
Processor seconds, with room for a busy machine. They take 0.1 to 0.4 s; where each step looks
through all nodes, 3 to 40 s.
"""


@contextmanager
def taking_little() -> Iterator[None]:
    began_s = time.process_time()
    yield
    assert time.process_time() - began_s < FEW_S, "the time grows with the square of the nodes"


def parked(width: int) -> Given:
    """A run whose agents are all parked."""
    agent = AgentPlan(prompt="p", output_schema={}, recovery_limit=2)
    given = Given(plan_of(NodePlan(id="part", for_each="input", work=agent)), [1] * width)
    while given.state.nodes["part"].readied != width:
        given.then()
    for index in range(width):
        node = f"part[{index}]"
        given.happened(NodeStarted(), node=node, attempt=1)
        given.happened(NodePaused(reason="parked", invocation=node, detail=""), node=node)
    given.then()
    assert given.state.status == "paused"
    return given


@pytest.mark.parametrize(
    "work",
    [AgentPlan(prompt="p", output_schema={}, recovery_limit=2), calls(effect="write")],
    ids=["agent", "write"],
)
def test_rec33_a_node_that_was_parked_before_it_began_begins_once_it_is_resumed(
    work: AgentPlan | FunctionPlan,
) -> None:
    given = Given(plan_of(NodePlan(id="part", work=work), step("beside")))
    while given.then().release is None:
        pass
    given.happened(NodePaused(reason="parked", invocation="part", detail=""), node="part")
    completed(given, "beside").then()
    assert "paused" == given.state.status

    resumed = people.resume(given.state, "resume")
    given.happened(resumed.events[0].data)

    assert "run/n:part" in {move.task for move in resumed.moves}
    assert ["NodeStarted part"] == facts(given.decide("n:part"))[:1]


def test_many_paused_agents_are_resumed_in_little_time() -> None:
    given = parked(MANY)
    with taking_little():
        append = people.resume(given.state, "resume")
        given.happened(append.events[0].data)

    assert {f"run/n:part[{index}]" for index in range(MANY)} <= {one.task for one in append.moves}
    assert MANY == given.state.active


def test_many_parked_nodes_are_redriven_in_appends_that_the_log_takes() -> None:
    given = parked(MANY)
    nodes = people.parked_in(given.state)
    with taking_little():
        for first in range(0, MANY, people.REDRIVEN):
            some = nodes[first : first + people.REDRIVEN]
            append = people.redrive(given.state, "redrive", some)
            assert append is not None
            assert {f"run/n:{node}" for node in some} | {"run/"} == {m.task for m in append.moves}
            for event in append.events:
                given.happened(event.data, event.node)

    assert (MANY, "running") == (given.state.active, given.state.status)
    assert people.redrive(given.state, "again", nodes) is None
    with pytest.raises(InvalidInput, match="nothing is parked"):
        people.redrive(given.state, "again")


def test_many_nodes_end_one_by_one_in_little_time() -> None:
    names = [f"part{number}" for number in range(MANY)]
    given = Given(plan_of(*map(step, names), step("join", *names)))
    with taking_little():
        while given.then().release is None:
            pass
        for name in names:
            completed(given, name)
            given.then()

    assert given.state.nodes["join"].status == "running"


def test_many_open_nodes_are_cancelled_in_little_time() -> None:
    given = parked(MANY)
    given.happened(RunCancelRequested(reason=""))
    with taking_little():
        while given.then().release is None:
            pass

    assert "cancelled" == given.state.status


def test_a_function_that_asks_for_its_run_is_told() -> None:
    made = InMemory(code={"steps:one": lambda run_context: [run_context.run, run_context.call]})
    call = FunctionPlan(
        call=CodeRef(path="steps:one", digest=""),
        arguments=("run_context",),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )

    state = made.run(plan_of(NodePlan(id="one", work=call)))

    assert ["run", "one"] == (state.output.value if state.output else None)
