"""An agent's turns: what is asked, what is made of the answer, and when it stops."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.decisions import people
from mulligan.decisions.decision import (
    AskModel,
    ModelOutcome,
    ObservedOutcome,
    ObserveTool,
    Release,
    RunTool,
    ToolOutcome,
)
from mulligan.errors import InvalidInput
from mulligan.events.facts import (
    AllowanceExhausted,
    AllowanceReserved,
    Cause,
    EffectReconciled,
    ModelRequested,
    RunCancelRequested,
    RunCompleted,
    RunResumed,
    SubagentFailed,
    ToolOutcomeUnknown,
    ToolReceiptArrived,
    ToolRequested,
    ToolStarted,
    ToolSucceeded,
    Usage,
)
from mulligan.events.payload import Payload
from mulligan.events.store import AsFact, Move
from mulligan.projections import trace
from mulligan.projections.history import problems
from mulligan.projections.usage import fold as fold_usage
from mulligan.providers.port import Answer, Failure, ModelRequest, ToolCall
from mulligan.schemas.plan import DEFAULT_TOOL_TIMEOUT_MS, AgentPlan, NodePlan, ToolSpec
from mulligan.testing.given import Given, facts, plan_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def agent(**more: Any) -> AgentPlan:
    return AgentPlan(
        **{
            "prompt": "Count {input}.",
            "model": "some/model",
            "output_schema": SCHEMA,
            "recovery_limit": 2,
            **more,
        }
    )


def tool(name: str, effect: str = "read") -> ToolSpec:
    return ToolSpec(
        name=name,
        path=f"tools:{name}",
        description="",
        parameters={"type": "object"},
        digest="",
        effect=effect,  # type: ignore[arg-type]
    )


TOOLS = {"look": tool("look"), "save": tool("save", "write"), "put": tool("put", "idempotent")}


def counting(checker_limit: int = 2, *, verifiable: bool = False, **more: Any) -> Given:
    own = agent(tools=tuple(spec.path for spec in TOOLS.values()), subagents=("checker",), **more)
    checker = agent(tools=("tools:look",), recovery_limit=checker_limit)
    plan = plan_of(
        NodePlan(id="a", work=own),
        agents={"checker": checker},
        tools={spec.path: replace(spec, verifiable=verifiable) for spec in TOOLS.values()},
    )
    return Given(plan, "sheep")


def asked(decision: Any) -> ModelRequest:
    assert isinstance(decision.effect, AskModel)
    return decision.effect.prepared.request


def answer(*calls: ToolCall, **more: Any) -> Answer:
    usage = Usage(prompt_tokens=1, completion_tokens=2)
    fields = {"finish_reason": "tool_calls", "terminal": True, "text": "", "usage": usage}
    return Answer(calls=calls, **{**fields, **more})


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


def submit(value: Any) -> ToolCall:
    return call("submit_output", output=value, assistant_message="there")


def heard(given: Given, *calls: ToolCall, task: str = "", **more: Any) -> Any:
    """The invocation's open request is answered."""
    decision_task = task.removeprefix("s:") or "a"
    request = given.state.invocations[decision_task].request
    assert request is not None
    return given.then(task, ModelOutcome(request.id, answer(*calls, **more)))


# --- Asking --------------------------------------------------------------------------------------


def test_the_first_request_holds_the_prompt_the_tools_and_the_hidden_submit_tool() -> None:
    decision = counting().then()

    assert ["RunStarted", "NodeReady a", "NodeStarted a", "ModelRequested a"] == facts(decision)
    request = asked(decision)
    assert ("a#1", "some/model", "tool") == (request.request_id, request.model, request.mode)
    assert "Count sheep." == request.messages[1].content
    names = [offer.name for offer in request.tools]
    assert ["look", "save", "put", "call_subagent", "submit_output"] == names
    assert SCHEMA == request.tools[-1].parameters["properties"]["output"]


def test_rec21_the_log_says_what_was_asked_for_and_what_is_sent() -> None:
    decision = counting(max_output_tokens=50).then()

    fact = decision.events[-1].data
    assert isinstance(fact, ModelRequested)
    assert ({"max_tokens": 50}, {"max_tokens": 50}) == (fact.asked, fact.sent)
    assert decision.effect.prepared.digest == fact.digest  # type: ignore[union-attr]


def test_definitions_of_the_schema_stay_where_their_references_look_for_them() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/count"}},
        "$defs": {"count": {"type": "integer"}},
    }
    plan = plan_of(NodePlan(id="a", work=agent(output_schema=schema)))

    parameters = asked(Given(plan, "x").then()).tools[-1].parameters

    assert schema["$defs"] == parameters["$defs"]
    assert "$defs" not in parameters["properties"]["output"]


# --- Output --------------------------------------------------------------------------------------


def test_a_submitted_output_that_fits_completes_the_node_and_the_run() -> None:
    given = counting()
    given.then()

    decision = heard(given, submit({"n": 3}))

    wanted = ["ModelAnswered a", "OutputAccepted a", "NodeCompleted a", "RunCompleted"]
    assert wanted == facts(decision)
    assert decision.events[-1].data == RunCompleted(output=Payload.of({"n": 3}))


@pytest.mark.parametrize(
    ("calls", "more", "reason"),
    [
        ((), {"terminal": False, "finish_reason": None}, "eof"),
        ((submit({"n": 3}),), {"terminal": False, "finish_reason": None}, "eof"),
        ((submit({"n": 3}),), {"finish_reason": "length"}, "length"),
        ((submit({"n": "x"}),), {}, "schema_violation"),
        ((call("submit_output", wrong=1, way=2),), {}, "wrong_envelope"),
        ((ToolCall("c", "submit_output", "{'n'"),), {}, None),
        ((submit({"n": 3}), call("look", 2)), {}, "mixed_turn"),
        ((submit({"n": 3}), submit({"n": 4})), {}, "mixed_turn"),
        ((ToolCall("c", "look", '{"q": '),), {}, "invalid_json"),
        ((), {}, "empty_turn"),
        ((), {"text": "It is 3.", "finish_reason": "stop"}, "wrong_envelope"),
        ((), {"text": '<tool_call>{"name": "save"}</tool_call>'}, "wrong_envelope"),
    ],
)
def test_rec8_a_turn_of_no_use_pauses_with_its_cause_and_runs_nothing(
    calls: tuple[ToolCall, ...], more: dict[str, Any], reason: str | None
) -> None:
    given = counting(recovery_limit=0)
    given.then()

    decision = heard(given, *calls, **more)

    exhausted = [e.data for e in decision.events if isinstance(e.data, AllowanceExhausted)]
    assert reason in (None, exhausted[0].reason)
    assert ["AllowanceExhausted a", "NodePaused a", "RunPaused"] == facts(decision)[-3:]
    assert ("paused", "exhausted") == (given.state.status, given.state.reason)
    assert "paused" == given.state.invocations["a"].recovery.phase
    assert not any(isinstance(e.data, ToolRequested | ToolStarted) for e in decision.events)
    assert decision.effect is None


def test_rec11_a_response_that_used_up_the_cap_that_was_sent_is_cut_whatever_it_says() -> None:
    given = counting(max_output_tokens=2, recovery_limit=0)
    given.then()

    decision = heard(given, submit({"n": 3}), finish_reason="tool_calls")

    exhausted = next(e.data for e in decision.events if isinstance(e.data, AllowanceExhausted))
    assert "length" == exhausted.reason


def test_ovr10_no_event_of_a_rejected_output_holds_it() -> None:
    given = counting()
    given.then()

    decision = heard(given, submit({"n": "canary-7731"}), text="canary-7731")

    assert "canary-7731" not in repr(decision)


def test_rec9_a_refusal_fails_at_once() -> None:
    given = counting()
    given.then()

    decision = heard(given, finish_reason="content_filter", text="I will not.")

    assert ["ModelAnswered a", "NodeFailed a", "RunFailed"] == facts(decision)
    assert "failed" == given.state.status


def test_rec8_a_resume_opens_a_fresh_allowance_and_asks_again() -> None:
    given = counting(recovery_limit=0)
    given.then()
    heard(given)

    given.happened(RunResumed())
    decision = given.then()

    assert ["ModelRequested a"] == facts(decision)
    recovery = given.state.invocations["a"].recovery
    assert (1, 2, 0, "active") == (
        recovery.resumed_from,
        recovery.number,
        recovery.used,
        recovery.phase,
    )
    assert "a#2" == asked(decision).request_id


# --- Transport -----------------------------------------------------------------------------------


def failure(**more: Any) -> Failure:
    return Failure(cause=Cause(kind="status", message="the provider said so", status=503), **more)


def test_rec17_a_transient_failure_pauses_with_its_cause() -> None:
    given = counting(recovery_limit=0)
    given.then()

    decision = given.then(outcome=ModelOutcome("a#1", failure(transient=True)))

    assert ["ModelFailed a", "AllowanceExhausted a", "NodePaused a", "RunPaused"] == facts(decision)
    recovery = given.state.invocations["a"].recovery
    assert (True, 503) == (recovery.transport_exhausted, recovery.cause and recovery.cause.status)


def test_rec9_a_failure_that_no_retry_helps_fails_at_once() -> None:
    given = counting()
    given.then()

    decision = given.then(outcome=ModelOutcome("a#1", failure(transient=False)))

    assert ["ModelFailed a", "NodeFailed a", "RunFailed"] == facts(decision)
    assert not any(isinstance(e.data, AllowanceExhausted) for e in decision.events)


def test_rec33_a_request_left_by_a_lost_worker_is_asked_again_without_the_allowance() -> None:
    given = counting()
    first = asked(given.then())

    decision = given.then()

    assert ["ModelInterrupted a", "ModelRequested a"] == facts(decision)
    assert first.messages == asked(decision).messages
    recovery = given.state.invocations["a"].recovery
    assert (0, 2) == (recovery.used, recovery.requests)


def test_rec33_a_turn_that_loses_worker_after_worker_is_parked() -> None:
    given = counting()
    given.then()
    given.then()
    given.then()

    decision = given.then()

    assert ["ModelInterrupted a", "NodePaused a", "RunPaused"] == facts(decision)
    assert "parked" == given.state.reason


# --- Tools ---------------------------------------------------------------------------------------


def succeeded(call_id: str, value: Any = "found") -> ToolOutcome:
    return ToolOutcome(call_id=call_id, result=Payload.of(value), duration_ms=1)


def test_tools_run_one_after_another_each_with_an_intent_before_and_a_receipt_after() -> None:
    given = counting()
    given.then()

    first = heard(given, call("look", 1, q="x"), call("put", 2, q="y"))

    wanted = ["ModelAnswered a", "ToolRequested a", "ToolRequested a", "ToolStarted a"]
    assert wanted == facts(first)
    assert isinstance(first.effect, RunTool)
    assert ("a.1.1", {"q": "x"}) == (first.effect.call_id, first.effect.arguments)
    second = given.then(outcome=succeeded("a.1.1"))
    assert ["ToolSucceeded a", "ToolStarted a"] == facts(second)
    third = given.then(outcome=succeeded("a.1.2"))
    assert ["ToolSucceeded a", "ModelRequested a"] == facts(third)
    messages = asked(third).messages[2:]
    assert ["assistant", "tool", "tool"] == [message.role for message in messages]
    assert ["c1", "c2"] == [message.tool_call_id for message in messages[1:]]
    assert '{"q":"x"}' == messages[0].calls[0].arguments


def test_a_tool_that_failed_is_an_answer_to_the_model() -> None:
    given = counting()
    given.then()
    heard(given, call("look"))
    error = Cause(kind="tool_exception", message="KeyError: 'x'")

    decision = given.then(outcome=ToolOutcome(call_id="a.1.1", error=error, duration_ms=1))

    assert ["ToolFailed a", "ModelRequested a"] == facts(decision)
    told = json.loads(asked(decision).messages[-1].content or "")
    assert {"is_error": True, "code": "tool_exception", "message": "KeyError: 'x'"} == told


def test_a_call_of_a_tool_that_is_not_offered_is_answered_and_not_run() -> None:
    given = counting()
    given.then()

    decision = heard(given, call("shell", command="ls"))

    assert [
        "ModelAnswered a",
        "ToolRequested a",
        "ToolFailed a",
        "AllowanceReserved a",
        "ModelRequested a",
    ] == facts(decision)


def test_a_large_result_is_cut_for_the_model_and_says_so() -> None:
    given = counting()
    given.then()
    heard(given, call("look"))

    content = asked(given.then(outcome=succeeded("a.1.1", "é" * 40_000))).messages[-1].content

    assert content is not None
    assert len(content.encode()) < 33_000
    assert content.endswith("[cut here: 80,000 bytes in all, 32,768 shown]")


@pytest.mark.parametrize("name", ["look", "put"])
def test_rec31_a_repeatable_tool_left_by_a_lost_worker_runs_again_with_the_same_key(
    name: str,
) -> None:
    given = counting()
    given.then()
    before = heard(given, call(name)).effect

    decision = given.then()

    assert [ToolStarted(call_id="a.1.1", execution=2)] == [e.data for e in decision.events]
    assert isinstance(decision.effect, RunTool)
    assert before.key == decision.effect.key == "run:a.1.1"


def test_rec31_a_write_left_by_a_lost_worker_is_unknown_and_pauses() -> None:
    given = counting()
    given.then()
    heard(given, call("save"))

    decision = given.then()

    assert ["ToolOutcomeUnknown a", "NodePaused a", "RunPaused"] == facts(decision)
    assert ("paused", "reconciliation_required") == (given.state.status, given.state.reason)
    assert [] == facts(given.decide())


def lost_write_of_a_tool_that_can_tell() -> Given:
    given = counting(verifiable=True)
    given.then()
    heard(given, call("save"))
    return given


@pytest.mark.parametrize(
    ("seen", "tags"),
    [
        ("succeeded", ["EffectReconciled a", "ModelRequested a"]),
        ("not_started", ["EffectReconciled a", "ModelRequested a"]),
        ("unknown", ["NodePaused a", "RunPaused"]),
    ],
)
def test_rec31_a_tools_own_observation_is_asked_before_a_person(seen: Any, tags: list[str]) -> None:
    given = lost_write_of_a_tool_that_can_tell()

    lost = given.then()
    assert ["ToolOutcomeUnknown a"] == facts(lost)
    assert isinstance(lost.effect, ObserveTool)
    assert ("a.1.1", "run:a.1.1") == (lost.effect.call_id, lost.effect.key)
    told = given.then(outcome=ObservedOutcome("a.1.1", seen))

    assert tags == facts(told)
    assert "ToolStarted a" not in facts(told), "it is never repeated on its own"


def test_rec31_an_observation_that_a_crash_cut_off_is_asked_again() -> None:
    given = lost_write_of_a_tool_that_can_tell()
    given.then()

    assert isinstance(given.then().effect, ObserveTool)


def test_rec31_what_the_observation_says_is_what_the_model_is_told() -> None:
    told = {}
    for seen in ("succeeded", "not_started"):
        given = lost_write_of_a_tool_that_can_tell()
        given.then()
        request = asked(given.then(outcome=ObservedOutcome("a.1.1", seen)))
        told[seen] = str(request.messages[-1].content)

    assert "seen to have taken effect" in told["succeeded"]
    assert "reconciled_as_failed" in told["not_started"]


def test_rec31_a_write_that_timed_out_is_unknown() -> None:
    given = counting()
    given.then()
    heard(given, call("save"))
    error = Cause(kind="timeout", message="no result within 5 ms")

    outcome = ToolOutcome(call_id="a.1.1", error=error, unknown=True, duration_ms=5)
    decision = given.then(outcome=outcome)

    unknown = ToolOutcomeUnknown(call_id="a.1.1", evidence="no result within 5 ms")
    assert unknown == decision.events[0].data
    assert "reconciliation_required" == given.state.reason


def test_rec27_a_late_unknown_outcome_wakes_the_cancelled_run_that_waits_for_it() -> None:
    given = counting()
    given.then()
    heard(given, call("save"))
    given.happened(RunCancelRequested(reason=""))
    assert given.decide().release == Release("timer", DEFAULT_TOOL_TIMEOUT_MS)

    died = ToolOutcome(
        call_id="a.1.1", error=Cause(kind="stopped", message="it died"), unknown=True, duration_ms=1
    )
    late = people.late(given.state, "late", died, taken=False)
    assert late is not None
    assert [ToolOutcomeUnknown(call_id="a.1.1", evidence="it died")] == [
        event.data for event in late.events
    ]
    given.happened(late.events[0].data, node="a")

    assert "run/" in {move.task for move in late.moves}
    assert ["NodeCancelled a", "RunCancelled"] == facts(given.then())


@pytest.mark.parametrize(
    ("outcome", "next_fact"), [("succeeded", "ModelRequested"), ("retry", "ToolStarted")]
)
def test_rec31_an_operator_says_what_became_of_an_unknown_effect(
    outcome: Any, next_fact: str
) -> None:
    given = counting()
    given.then()
    heard(given, call("save"))
    given.then()

    result = Payload.of("saved") if outcome == "succeeded" else None
    given.happened(
        EffectReconciled(call_id="a.1.1", outcome=outcome, by="operator", result=result), node="a"
    )

    assert "running" == given.state.status
    assert [f"{next_fact} a"] == facts(given.then())


def test_rec31_a_late_receipt_settles_an_unknown_effect() -> None:
    given = counting()
    given.then()
    heard(given, call("save"))
    given.then()

    given.happened(ToolSucceeded(call_id="a.1.1", result=Payload.of("saved")), node="a")

    assert "running" == given.state.status
    assert ["ModelRequested a"] == facts(given.then())


NOT_RUN = Cause(kind="not_run", message="it did not run")


def failed(execution: int = 1) -> ToolOutcome:
    return ToolOutcome(call_id="a.1.1", execution=execution, error=NOT_RUN, duration_ms=0)


def handed_in(given: Given, outcome: ToolOutcome) -> Any:
    """A worker whose task another has taken says what its call came to."""
    late = people.late(given.state, "late", outcome, taken=True)
    assert late is not None
    for event in late.events:
        given.happened(event.data, event.node)
    return late


def lost_write(**more: Any) -> Given:
    given = counting(**more)
    given.then()
    heard(given, call("save"))
    given.then()
    return given


def test_rec31_a_late_success_settles_an_unknown_call_and_nobody_need_be_asked() -> None:
    given = lost_write()
    assert ("paused", "reconciliation_required") == (given.state.status, given.state.reason)

    late = handed_in(given, succeeded("a.1.1", "saved"))

    (arrived,) = [event.data for event in late.events]
    assert isinstance(arrived, ToolReceiptArrived)
    assert (1, "succeeded", Payload.of("saved")) == (
        arrived.execution,
        arrived.outcome,
        arrived.result,
    )
    assert "run/" in {move.task for move in late.moves}
    with pytest.raises(InvalidInput, match="nothing to reconcile"):
        people.reconcile(given.state, "op", "a.1.1", "failed", by="ann")
    request = asked(given.then())
    assert "saved" in str(request.messages[-1].content)
    assert [] == problems(given.log)


@pytest.mark.parametrize("execution", [1, 2])
def test_rec31_a_late_failure_settles_the_call_only_if_nobody_has_begun_it_again(
    execution: int,
) -> None:
    """The second execution is lost too, and may have taken effect."""
    given = lost_write()
    given.happened(EffectReconciled(call_id="a.1.1", outcome="retry", by="operator"), node="a")
    given.then()
    given.then()
    lost = given.state.invocations["a"].calls["a.1.1"]
    assert ("unknown", 2) == (lost.status, lost.executions)

    handed_in(given, failed(execution))

    settled = given.state.invocations["a"].calls["a.1.1"]
    assert (settled.status, settled.error) == (
        ("failed", NOT_RUN) if execution == 2 else ("unknown", None)
    )
    assert ("running" if execution == 2 else "paused") == given.state.status
    assert [] == problems(given.log)


def test_rec31_a_late_failure_leaves_alone_what_another_worker_is_at() -> None:
    given = counting()
    given.then()
    heard(given, call("save"))
    assert "started" == given.state.invocations["a"].calls["a.1.1"].status

    handed_in(given, failed())

    assert "started" == given.state.invocations["a"].calls["a.1.1"].status


@pytest.mark.parametrize(
    ("said", "outcome", "status"),
    [
        ("failed", succeeded("a.1.1", "saved"), "failed"),
        ("succeeded", failed(), "succeeded"),
        ("succeeded", succeeded("a.1.1", "saved twice?"), "succeeded"),
        ("retry", failed(), "requested"),
    ],
)
def test_rec31_a_late_receipt_of_a_call_that_a_person_settled_is_kept_as_evidence(
    said: Any, outcome: ToolOutcome, status: str
) -> None:
    given = lost_write()
    reconciled = EffectReconciled(
        call_id="a.1.1", outcome=said, by="ann", result=Payload.of("as ann saw")
    )
    given.happened(reconciled, node="a")
    before = given.state.invocations["a"].calls["a.1.1"]

    late = handed_in(given, outcome)

    assert status == before.status
    assert before == given.state.invocations["a"].calls["a.1.1"]
    assert isinstance(late.events[0].data, ToolReceiptArrived)
    assert late.writer == AsFact("a.1.1", receipt=True), "a closed run takes it too"
    (step,) = [one for one in trace.fold("run", given.log).steps if "late receipt" in one.text]
    assert late.events[0].data.outcome in step.text
    assert [] == problems(given.log)


def test_rec31_a_late_success_keeps_a_call_that_was_to_be_tried_again_from_being_run() -> None:
    given = lost_write()
    given.happened(EffectReconciled(call_id="a.1.1", outcome="retry", by="ann"), node="a")

    handed_in(given, succeeded("a.1.1", "saved"))

    assert ["ModelRequested a"] == facts(given.then())


def test_rec31_an_observation_that_a_late_receipt_has_overtaken_says_nothing() -> None:
    given = lost_write_of_a_tool_that_can_tell()
    given.then()
    handed_in(given, succeeded("a.1.1", "saved"))

    told = given.then(outcome=ObservedOutcome("a.1.1", "not_started"))

    assert ["ModelRequested a"] == facts(told)


def test_a_receipt_that_comes_in_time_to_a_run_that_ends_is_no_late_one() -> None:
    """REC-27: a running tool is awaited; what the run's end has made unknown comes late."""
    given = counting()
    given.then()
    heard(given, call("save"))
    given.happened(RunCancelRequested(reason=""))

    kinds = []
    for _ in range(2):
        late = people.late(given.state, "late", succeeded("a.1.1", "saved"), taken=False)
        assert late is not None
        kinds.append(type(late.events[0].data))
        given.happened(ToolOutcomeUnknown(call_id="a.1.1", evidence="no receipt"), node="a")

    assert [ToolSucceeded, ToolReceiptArrived] == kinds


def test_a_second_receipt_changes_nothing() -> None:
    given = counting()
    given.then()
    heard(given, call("save"))
    given.then(outcome=succeeded("a.1.1", "first"))

    given.happened(ToolSucceeded(call_id="a.1.1", result=Payload.of("second")), node="a")

    assert Payload.of("first") == given.state.invocations["a"].calls["a.1.1"].result


# --- Subagents -----------------------------------------------------------------------------------


def call_checker(given: Given) -> Any:
    given.then()
    return heard(given, call("call_subagent", subagent="checker", input={"text": "x"}))


def test_rec6_a_called_agent_has_a_task_and_an_allowance_of_its_own() -> None:
    given = counting(recovery_limit=5)

    decision = call_checker(given)

    assert ["ModelAnswered a", "SubagentCalled a"] == facts(decision)
    assert [("run/s:a.1.1", "ready"), ("run/", "wait")] == [(m.task, m.to) for m in decision.moves]
    nested = given.state.invocations["a.1.1"].recovery
    assert ("a", 2) == (nested.parent_id, nested.limit)


def test_a_called_agent_answers_its_caller_and_wakes_it() -> None:
    given = counting()
    call_checker(given)
    first = given.then("s:a.1.1")
    assert '{"text":"x"}' == asked(first).messages[1].content

    decision = heard(given, submit({"n": 7}), task="s:a.1.1")

    assert ["ModelAnswered a", "OutputAccepted a", "SubagentCompleted a"] == facts(decision)
    assert Move("run/", "wake", 1_000) in decision.moves
    assert Release("end") == decision.release
    assert '{"n":7}' == asked(given.then()).messages[-1].content


def test_a_called_agent_that_fails_is_an_answer_to_its_caller() -> None:
    given = counting()
    call_checker(given)
    given.then("s:a.1.1")

    decision = heard(given, task="s:a.1.1", finish_reason="content_filter")

    assert isinstance(decision.events[-1].data, SubagentFailed)
    told = json.loads(asked(given.then()).messages[-1].content or "")
    assert (True, "refused") == (told["is_error"], told["code"])


def test_a_called_agent_that_is_paused_pauses_its_node_and_goes_on_when_resumed() -> None:
    given = counting(checker_limit=0)
    call_checker(given)
    given.then("s:a.1.1")
    heard(given, task="s:a.1.1")
    given.then()
    assert ("paused", "exhausted") == (given.state.status, given.state.reason)

    given.happened(RunResumed())

    assert Release("wait") == given.then().release, "the caller still waits for its agent"
    assert ["ModelRequested a"] == facts(given.then("s:a.1.1"))


def test_an_agent_that_may_not_be_called_is_an_unknown_tool() -> None:
    given = counting()
    given.then()

    decision = heard(given, call("call_subagent", subagent="stranger", input=1))

    assert "ToolFailed a" in facts(decision)


def test_rec21_usage_that_was_not_reported_is_unknown_not_zero() -> None:
    given = counting()
    given.then()
    heard(given, call("look"))
    given.then(outcome=succeeded("a.1.1"))
    heard(given, submit({"n": 1}), usage=None)

    usage = fold_usage("run", given.log).models["some/model"]

    assert (2, 1, 2) == (usage.requests, usage.unknown, usage.completion_tokens)


@pytest.mark.parametrize("name", ["look", "no_such_tool"])
def test_rec16_a_response_of_very_many_calls_is_a_loop_and_runs_nothing(name: str) -> None:
    """What one append can hold is made; beyond it the allowance decides, not the log's limit."""
    given = counting()
    given.then()
    many = heard(given, *(call(name, number) for number in range(200)))
    given = counting()
    given.then()
    too_many = heard(given, *(call(name, number) for number in range(201)))

    assert len(many.events) < 1_000
    assert 200 == sum(isinstance(one.data, ToolRequested) for one in many.events)
    assert 0 == sum(isinstance(one.data, ToolRequested) for one in too_many.events)
    reserved = [one.data for one in too_many.events if isinstance(one.data, AllowanceReserved)]
    assert ["repetitive_output"] == [one.reason for one in reserved]
