"""
The overseer's decisions: who asks it, what it asks, what follows from each thing that may come
back, and that nothing prints a candidate (OVR-1 to OVR-11).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.decisions.decision import (
    AskModel,
    Context,
    Decision,
    ModelOutcome,
    NoSlot,
    Release,
)
from mulligan.decisions.overseer_request import model_for
from mulligan.decisions.parking import parked
from mulligan.decisions.task import decide
from mulligan.decisions.turn import Submitted
from mulligan.errors import EnvironmentUnfit
from mulligan.events.facts import (
    AllowanceReserved,
    Cause,
    ModelAnswered,
    ModelRequested,
    NodeFailed,
    OutputRepairFailed,
    OutputRepairRequested,
    OutputRepairSucceeded,
    RunCancelRequested,
    RunResumed,
    Usage,
)
from mulligan.events.payload import Payload
from mulligan.projections.history import problems
from mulligan.projections.usage import fold as fold_usage
from mulligan.providers.port import Answer, Failure, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan
from mulligan.testing.given import Given, facts, plan_of, prepare

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MODEL = "some/model"
CANARY = "canary-6612"
TASK = "o:a.1"
BAD = json.dumps({"output": {"n": CANARY}})


def working(**agent: Any) -> AgentPlan:
    fields = {"prompt": "Count.", "model": MODEL, "output_schema": SCHEMA}
    return AgentPlan(**{**fields, "recovery_limit": 2, **agent})


def begun(**agent: Any) -> Given:
    """A node `a` whose agent has sent its first request."""
    work = working(**agent)
    given = Given(plan_of(NodePlan(id="a", work=work)))
    given.then()
    return given


def submitted(arguments: str = BAD) -> Answer:
    call = ToolCall("c1", "submit_output", arguments)
    return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))


def said(text: Any, **more: Any) -> Answer:
    text = text if isinstance(text, str) else json.dumps(text)
    return Answer(**{"finish_reason": "stop", "terminal": True, "text": text, **more})


REPAIRED = said({"repaired_arguments": {"output": {"n": 1}}}, usage=Usage(prompt_tokens=3))


def rejected(**agent: Any) -> tuple[Given, Decision]:
    """The agent's output was rejected, and the overseer is asked for."""
    given = begun(**agent)
    return given, given.then(outcome=ModelOutcome("a#1", submitted()))


def asking(**agent: Any) -> Given:
    """The overseer's request is about to leave."""
    given, _ = rejected(**agent)
    given.then(TASK)
    return given


def heard(given: Given, result: Answer | Failure) -> Decision:
    return given.then(TASK, ModelOutcome("a.overseer.1#1", result))


def of(decision: Decision, kind: type) -> Any:
    return next(event.data for event in decision.events if isinstance(event.data, kind))


def test_ovr3_a_rejected_output_is_sealed_and_its_agent_waits() -> None:
    given, decision = rejected()

    assert ["ModelAnswered a", "OutputRejected a", "OutputRepairRequested a"] == facts(decision)
    assert ("run/o:a.1", BAD.encode()) == (decision.sealed[0].task, decision.sealed[0].data)
    assert decision.sealed[0].ttl_ms <= 15 * 60 * 1_000
    assert Release("wait") == decision.release
    assert [("run/o:a.1", "ready"), ("run/", "wait")] == [(m.task, m.to) for m in decision.moves]
    assert "c1" == of(decision, OutputRepairRequested).provider_id
    assert Release("wait") == given.decide().release, "whatever wakes it"


def test_ovr11_the_intent_and_the_start_are_one_append() -> None:
    given, _ = rejected()

    decision = given.then(TASK)

    assert ["OutputRepairStarted a", "ModelRequested a"] == facts(decision)
    assert isinstance(decision.effect, AskModel)
    request = decision.effect.prepared.request
    assert ("a.overseer.1#1", "a", 1, False) == (
        request.request_id,
        request.node,
        request.attempt,
        request.stream,
    )
    assert ((), {}, None) == (request.tools, request.parameters, request.output_schema)
    assert 120_000 == decision.effect.within_ms
    recovery = given.state.invocations["a"].recovery
    assert (1, 0) == (recovery.requests, recovery.used), "it draws on no allowance (OVR-2)"


def test_rec10_the_agents_own_output_limit_holds_for_its_repair() -> None:
    given, _ = rejected(max_output_tokens=50)

    decision = given.then(TASK)

    assert isinstance(decision.effect, AskModel)
    assert {"max_tokens": 50} == decision.effect.prepared.request.parameters
    assert 50 == of(decision, ModelRequested).sent["max_tokens"]


def test_rec34_a_request_without_a_slot_waits_and_is_no_intent() -> None:
    given, _ = rejected()
    context = Context(
        given.now_ms, _value_of, prepare, 1.0, given.candidates.get, NoSlot("some", 700)
    )

    waiting = decide(given.state, f"run/{TASK}", context)
    for event in waiting.events:
        given.happened(event.data, event.node, event.attempt)

    assert ["SlotAwaited a"] == facts(waiting)
    assert (None, Release("timer", 700)) == (waiting.effect, waiting.release)
    assert ["OutputRepairStarted a", "ModelRequested a"] == facts(given.then(TASK))
    assert given.state.invocations["a"].place is None
    assert [] == problems(given.log)


def _value_of(payload: Payload) -> Any:
    return payload.value


def test_ovr8_success_ends_the_invocation_with_the_answer_in_one_append() -> None:
    given = asking()

    decision = heard(given, REPAIRED)

    assert [
        "ModelAnswered a",
        "OutputRepairSucceeded a",
        "OutputAccepted a",
        "NodeCompleted a",
    ] == facts(decision)
    assert Release("end") == decision.release
    assert ("run/o:a.1",) == decision.discarded
    assert ("run/", "wake") in [(move.task, move.to) for move in decision.moves]
    assert ("/n",) == of(decision, OutputRepairSucceeded).novel
    usage = fold_usage("run", given.log)
    assert (1, 3) == (usage.models[MODEL].requests, usage.overseer[MODEL].prompt_tokens)
    assert "RunCompleted" == facts(given.then())[-1]
    assert [] == problems(given.log)


def test_ovr2_after_a_failure_the_agent_goes_on_as_without_it() -> None:
    given = asking()
    cause = Cause(kind="unavailable", message="the provider is unavailable", status=503)

    failed = heard(given, Failure(cause=cause, transient=True))
    decision = given.then()

    assert ["ModelFailed a", "OutputRepairFailed a"] == facts(failed)
    assert ["AllowanceReserved a", "ModelRequested a"] == facts(decision)
    reserved = of(decision, AllowanceReserved)
    assert ("schema_violation", "a#1") == (reserved.reason, reserved.request_id)
    assert isinstance(decision.effect, AskModel)
    note = decision.effect.prepared.request.messages[-1].content or ""
    assert "/n" in note
    assert CANARY not in note
    assert [] == problems(given.log)


def test_ovr11_a_request_that_nobody_answered_is_not_sent_again() -> None:
    given = asking()

    decision = given.then(TASK)

    assert ["ModelInterrupted a", "OutputRepairFailed a"] == facts(decision)
    assert "interrupted" == of(decision, OutputRepairFailed).reason
    assert decision.effect is None
    assert "AllowanceReserved a" in facts(given.then())


def test_ovr9_an_abort_of_the_call_alone_is_an_interruption() -> None:
    stopped = Failure(cause=Cause(kind="cancelled", message=""), transient=False)

    assert "interrupted" == of(heard(asking(), stopped), OutputRepairFailed).reason


def test_ovr7_a_candidate_that_has_expired_is_told_without_a_request() -> None:
    given, _ = rejected()
    given.candidates.clear()

    decision = given.then(TASK)

    assert "candidate_expired" == of(decision, OutputRepairFailed).reason
    assert decision.effect is None


@pytest.mark.parametrize("limit", [0])
def test_ovr2_a_limit_of_0_has_no_overseer(limit: int) -> None:
    _, decision = rejected(recovery_limit=limit)

    assert () == decision.sealed
    assert "AllowanceExhausted a" in facts(decision)


def test_ovr9_cancellation_drops_what_comes_late() -> None:
    given = asking()
    given.happened(RunCancelRequested())

    decision = heard(given, REPAIRED)

    assert [] == facts(decision)
    assert Release("end") == decision.release


@pytest.mark.parametrize("started", [False, True])
def test_ovr10_a_candidate_goes_with_a_run_that_is_cancelled(started: bool) -> None:
    given = asking() if started else rejected()[0]
    given.happened(RunCancelRequested())

    ended = given.then()

    assert "RunCancelled" == facts(ended)[-1]
    assert ("run/o:a.1",) == ended.discarded


def test_ovr10_a_candidate_goes_with_a_run_that_fails_before_the_overseer_has_read_it() -> None:
    given, _ = rejected(timeout_ms=1_000)

    ended = given.at(given.now_ms + 1_000).then()

    assert ["NodeFailed a", "RunFailed"] == facts(ended)
    assert ("run/o:a.1",) == ended.discarded


def test_ovr9_an_agent_that_ended_meanwhile_wakes_its_overseer_which_drops_a_success() -> None:
    """Whoever would record a success must read first that the agent's time was over."""
    nodes = (NodePlan(id=name, work=working(timeout_ms=1_000)) for name in ("a", "b"))
    given = Given(plan_of(*nodes))
    given.then()
    given.then("n:a")
    given.then("n:a", ModelOutcome("a#1", submitted()))
    given.then("n:b")
    given.then(TASK)

    ended = given.at(given.now_ms + 1_000).then("n:a")
    late = heard(given, REPAIRED)

    assert "deadline_exceeded" == of(ended, NodeFailed).code
    assert ("run/o:a.1", "wake") in [(move.task, move.to) for move in ended.moves]
    assert ["ModelAnswered a"] == facts(late), "what it used is told (OVR-8)"
    assert 3 == of(late, ModelAnswered).usage.prompt_tokens
    assert [] == problems(given.log)


def test_the_call_ends_with_its_agents_time() -> None:
    given, _ = rejected(timeout_ms=5_000)

    decision = given.then(TASK)

    assert isinstance(decision.effect, AskModel)
    assert 5_000 == decision.effect.within_ms


def test_ovr10_the_call_ends_before_its_candidate_expires() -> None:
    given, _ = rejected()

    decision = given.at(given.now_ms + 14 * 60 * 1_000 + 30_000).then(TASK)

    assert isinstance(decision.effect, AskModel)
    assert 30_000 == decision.effect.within_ms


def test_ovr11_an_overseer_whose_process_ends_records_its_answer_and_leaves() -> None:
    given = asking()
    context = Context(given.now_ms, _value_of, prepare, 1.0, given.candidates.get)

    outcome = ModelOutcome("a.overseer.1#1", REPAIRED)
    decision = decide(given.state, f"run/{TASK}", context, outcome, record_only=True)

    assert "NodeCompleted a" in facts(decision)
    assert Release("end") == decision.release
    assert ("run/o:a.1",) == decision.discarded


def test_ovr2_the_same_attempt_is_not_overseen_twice() -> None:
    """An operator's resume goes on with the attempt that the overseer has seen."""
    given = asking(recovery_limit=1)
    heard(given, said("No."))
    given.then()
    given.then(outcome=ModelOutcome("a#2", submitted()))
    given.then("o:a.2")
    given.then("o:a.2", ModelOutcome("a.overseer.2#1", said("No.")))
    assert "AllowanceExhausted a" in facts(given.then())
    given.happened(RunResumed())
    given.then()

    again = given.then(outcome=ModelOutcome("a#3", submitted()))

    assert "OutputRejected a" in facts(again)
    assert "OutputRepairRequested a" not in facts(again)


def test_what_stops_the_overseer_itself_is_its_failure_and_parks_nothing() -> None:
    given, _ = rejected()
    before = parked(given.state, f"run/{TASK}", "poison")
    asked = asking()
    during = parked(asked.state, f"run/{TASK}", "poison")

    assert ["invocation_failed"] == [event.data.reason for event in before]
    assert ["ModelInterrupted", "OutputRepairFailed"] == [type(e.data).__name__ for e in during]


def test_a_model_that_cant_be_asked_leaves_the_original_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, _ = rejected()

    def refuse(request: Any) -> Any:
        raise EnvironmentUnfit("no key")

    monkeypatch.setattr("mulligan.testing.given.prepare", refuse)

    assert "invocation_failed" == of(given.then(TASK), OutputRepairFailed).reason


@pytest.mark.parametrize(
    ("worker", "named", "asked"),
    [
        ("scripted/m", None, "scripted/m"),
        ("scripted/m", "  ", "scripted/m"),
        ("openai/m", "openai/big", "openai/big"),
        ("openai/m", "big", "openai/big"),
        ("openrouter/a/b", "anthropic/c", "openrouter/anthropic/c"),
        ("openai/m", "anthropic/c", "openai/anthropic/c"),
    ],
)
def test_ovr4_the_provider_is_the_workers(worker: str, named: str | None, asked: str) -> None:
    assert asked == model_for(worker, named)


def test_ovr10_nothing_prints_a_candidate() -> None:
    given, decision = rejected()
    started = given.then(TASK)
    failed = heard(given, said(f"{CANARY} is all I have"))

    outcome = ModelOutcome("a#1", submitted())
    candidate = Submitted(BAD, submitted().calls[0])
    seen = (decision, started, failed, given.state, given.log, decision.sealed[0])
    assert started.effect is not None
    for printed in (*seen, outcome, candidate, started.effect, started.effect.prepared.request):
        assert CANARY not in repr(printed)
        assert CANARY not in str(printed)
