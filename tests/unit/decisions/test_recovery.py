"""What follows a failure: another attempt under the allowance, or an honest stop (REC-1 to 29)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.decisions.decision import AskModel, ModelOutcome, Release, ToolOutcome
from mulligan.events.facts import (
    AllowanceExhausted,
    AllowanceRefunded,
    AllowanceReserved,
    Cause,
    HistoryCompacted,
    ModelRequested,
    NodeFailed,
    NodePaused,
    RunCancelRequested,
    RunResumed,
    SubagentFailed,
    TimerSet,
    Usage,
)
from mulligan.events.payload import Payload
from mulligan.projections.history import problems
from mulligan.projections.trace import fold as fold_trace
from mulligan.providers.port import Answer, Failure, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan, ToolSpec
from mulligan.testing.given import Given, facts, plan_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CANARY = "canary-4410"


def agent(**more: Any) -> AgentPlan:
    fields = {"prompt": "Count.", "model": "some/model", "output_schema": SCHEMA}
    return AgentPlan(**{**fields, "recovery_limit": 2, **more})


LOOK = ToolSpec(
    name="look",
    path="tools:look",
    description="",
    parameters={"type": "object"},
    digest="",
    effect="read",
)
SAVE = ToolSpec(
    name="save",
    path="tools:save",
    description="",
    parameters={"type": "object"},
    digest="",
    effect="write",
)


def begun(
    limits: dict[str, int] | None = None, checker: dict[str, Any] | None = None, **more: Any
) -> Given:
    """A node `a` whose agent has sent its first request."""
    own = agent(**{"tools": ("tools:look", "tools:save"), "subagents": ("checker",), **more})
    plan = plan_of(
        NodePlan(id="a", work=own),
        agents={"checker": agent(**(checker or {}))},
        tools={"tools:look": LOOK, "tools:save": SAVE},
        **(limits or {}),
    )
    given = Given(plan)
    given.then()
    return given


def asked(decision: Any) -> ModelRequest:
    assert isinstance(decision.effect, AskModel)
    return decision.effect.prepared.request


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


def submit(value: Any) -> ToolCall:
    return call("submit_output", output=value, assistant_message=None)


def answer(*calls: ToolCall, **more: Any) -> Answer:
    fields = {"finish_reason": "tool_calls", "terminal": True, "text": ""}
    return Answer(calls=calls, **{**fields, **more})


def open_request(given: Given, invocation: str = "a") -> str:
    request = given.state.invocations[invocation].request
    assert request is not None
    return request.id


def hear(given: Given, result: Answer | Failure, task: str = "") -> Any:
    """The open request comes to this."""
    return given.then(
        task, ModelOutcome(open_request(given, task.removeprefix("s:") or "a"), result)
    )


def hear_out(given: Given, result: Answer | Failure) -> Any:
    """As `hear`, where an overseer that is asked can't help."""
    decision = hear(given, result)
    asked_overseer = [move.task for move in decision.moves if "/o:" in move.task]
    if not asked_overseer:
        return decision
    task = asked_overseer[0].removeprefix("run/")
    request = asked(given.then(task)).request_id
    given.then(task, ModelOutcome(request, broken(transient=False)))
    return given.then()


def broken(**more: Any) -> Failure:
    cause = Cause(kind="unavailable", message="the provider is unavailable", status=503)
    return Failure(**{"cause": cause, "transient": True, **more})


def recovery(given: Given, invocation: str = "a") -> Any:
    return given.state.invocations[invocation].recovery


def of(decision: Any, kind: type) -> Any:
    return next(event.data for event in decision.events if isinstance(event.data, kind))


def wait_over(given: Given, task: str = "") -> Any:
    """The timer is due."""
    due = given.state.invocations[task.removeprefix("s:") or "a"].timer_due_ms
    assert due is not None
    return given.at(due).then(task)


OF_NO_USE: list[tuple[str, Answer]] = [
    ("length", answer(submit({"n": 3}), finish_reason="length")),
    ("length", answer(text='{"output": {"n": 3}', finish_reason="MAX_TOKENS")),
    ("eof", answer(terminal=False, finish_reason=None)),
    ("eof", answer(submit({"n": 3}), terminal=False, finish_reason=None)),
    ("empty_turn", answer(finish_reason="stop")),
    ("invalid_json", answer(ToolCall("c", "submit_output", "not json at all"))),
    ("invalid_json", answer(ToolCall("c", "look", f'{{"q": "{CANARY}'))),
    ("invalid_json", answer(finish_reason="malformed_function_call")),
    ("wrong_envelope", answer(call("submit_output", wrong=CANARY, way=2))),
    ("schema_violation", answer(submit({"n": CANARY}))),
    ("mixed_turn", answer(submit({"n": 3}), call("look", 2, q=CANARY))),
    ("repetitive_output", answer(terminal=False, finish_reason=None, repetitive=True)),
]


@pytest.mark.parametrize(("reason", "response"), OF_NO_USE)
def test_rec3_rec7_each_reason_reserves_an_attempt_announces_it_and_asks_again(
    reason: str, response: Answer
) -> None:
    given = begun()

    decision = hear_out(given, response)

    reserved = of(decision, AllowanceReserved)
    assert (reason, 2, 1, 2, "a#1", None) == (
        reserved.reason,
        reserved.next_attempt,
        reserved.used,
        reserved.limit,
        reserved.request_id,
        reserved.delay_ms,
    )
    assert ["AllowanceReserved a", "ModelRequested a"] == facts(decision)[-2:]
    assert (1, 2) == (decision.events[-2].attempt, decision.events[-1].attempt)
    assert ("a#2", 2) == (asked(decision).request_id, asked(decision).attempt)
    assert ("retrying", 2) == (given.state.nodes["a"].status, given.state.nodes["a"].attempt)
    assert "retrying" == recovery(given).phase


@pytest.mark.parametrize(("reason", "response"), OF_NO_USE)
def test_rec5_a_limit_of_0_pauses_at_the_first_failure_with_its_cause(
    reason: str, response: Answer
) -> None:
    given = begun(recovery_limit=0)

    decision = hear(given, response)

    assert ["AllowanceExhausted a", "NodePaused a", "RunPaused"] == facts(decision)[-3:]
    assert reason == of(decision, AllowanceExhausted).reason == recovery(given).cause.kind
    assert ("paused", "exhausted") == (given.state.status, given.state.reason)
    assert (0, 1) == (recovery(given).used, recovery(given).requests)


@pytest.mark.parametrize(("reason", "response"), OF_NO_USE)
def test_rec11_rec12_rec13_the_next_request_says_why_and_leaves_out_what_was_written(
    reason: str, response: Answer
) -> None:
    given = begun()
    before = asked(given.decide())  # what a lost worker's request would be sent as again
    decision = hear_out(given, response)

    *same, note = asked(decision).messages

    assert list(before.messages) == same
    assert note.role == "user"
    assert reason in ("mixed_turn", "empty_turn") or "one complete value" in (note.content or "")
    assert CANARY not in repr(asked(decision).messages) + str(
        [message.content for message in asked(decision).messages]
    )
    assert "look" not in str([c.name for message in same for c in message.calls])


def test_rec13_the_note_names_path_rule_and_message_of_each_issue() -> None:
    given = begun()

    decision = hear_out(given, answer(submit({"n": "many"})))

    content = asked(decision).messages[-1].content or ""
    assert "- /n: " in content
    assert "/properties/n/type" in content
    assert "many" not in content


def test_rec13_the_note_is_rebuilt_from_the_log_alone() -> None:
    given = begun()
    decision = hear_out(given, answer(submit({"n": "many"})))

    again = Given.replayed(given.log)

    assert asked(decision).messages == asked(again.then()).messages


def test_rec4_a_complete_tool_round_ends_the_note_and_costs_nothing() -> None:
    given = begun()
    hear(given, answer(finish_reason="stop"))

    hear(given, answer(call("look")))
    assert ("active", "running") == (recovery(given).phase, given.state.nodes["a"].status)
    decision = given.then(
        outcome=ToolOutcome(call_id="a.1.1", result=Payload.of("x"), duration_ms=1)
    )

    assert ["system", "user", "assistant", "tool"] == [m.role for m in asked(decision).messages]
    assert (1, 2) == (recovery(given).used, asked(decision).attempt)


def test_rec11_recovery_goes_on_from_the_last_complete_tool_round() -> None:
    given = begun()
    hear(given, answer(call("look")))
    given.then(outcome=ToolOutcome(call_id="a.1.1", result=Payload.of("found"), duration_ms=1))

    decision = hear(given, answer(submit({"n": 3}), finish_reason="length"))

    roles = [message.role for message in asked(decision).messages]
    assert ["system", "user", "assistant", "tool", "user"] == roles
    assert "found" == asked(decision).messages[3].content
    assert (2, "a#2") == (of(decision, ModelRequested).turn, of(decision, ModelRequested).retry_of)


# --- Transport -----------------------------------------------------------------------------------


def test_rec7_rec17_a_failure_of_the_transport_waits_and_sends_the_same_request_again() -> None:
    given = begun()
    decision = hear(given, broken())

    assert ["ModelFailed a", "AllowanceReserved a", "TimerSet a"] == facts(decision)
    reserved, timer = of(decision, AllowanceReserved), of(decision, TimerSet)
    assert ("transport", 500, 503) == (reserved.reason, reserved.delay_ms, reserved.cause.status)
    assert ("backoff", 500, "a", 2) == (
        timer.purpose,
        timer.delay_ms,
        timer.invocation,
        timer.next_attempt,
    )
    assert Release("timer", 500) == decision.release
    assert "retrying" == given.state.nodes["a"].status
    again = wait_over(given)
    assert ["TimerFired a", "ModelRequested a"] == facts(again)
    assert "a#1" == of(again, ModelRequested).retry_of
    assert asked(again).messages == asked(begun().decide()).messages


def of_log(given: Given, kind: type) -> list[Any]:
    return [event.data for event in given.log if isinstance(event.data, kind)]


@pytest.mark.parametrize("early_ms", [1, 100, 499])
def test_rec17_whoever_wakes_it_early_does_not_cut_the_wait_short(early_ms: int) -> None:
    given = begun()
    hear(given, broken())

    decision = given.at(given.now_ms + early_ms).then()

    assert [] == facts(decision)
    assert Release("timer", 500 - early_ms) == decision.release


def test_rec17_waits_double_up_to_the_most_and_are_never_shorter_than_retry_after() -> None:
    given = begun(recovery_limit=9)
    delays = []
    for retry_after_ms in (None, None, None, 60_000, None):
        decision = hear(given, broken(retry_after_ms=retry_after_ms))
        delays.append(of(decision, TimerSet).delay_ms)
        wait_over(given)

    assert [500, 1_000, 2_000, 60_000, 8_000] == delays


@pytest.mark.parametrize(("chance", "wanted"), [(0.0, 250), (0.5, 375), (1.0, 500)])
def test_rec17_jitter_comes_from_outside(chance: float, wanted: int) -> None:
    given = begun()
    given.chance = chance

    assert wanted == of(hear(given, broken()), TimerSet).delay_ms


def test_rec4_success_refunds_exactly_what_the_same_request_reserved_for_transport() -> None:
    given = begun(recovery_limit=3)
    hear(given, answer(finish_reason="stop"))
    hear(given, broken())
    wait_over(given)
    hear(given, broken())
    wait_over(given)
    assert 3 == recovery(given).used

    decision = hear(given, answer(call("look")))

    assert AllowanceRefunded(invocation="a", request_id="a#4", count=2, used=1) == of(
        decision, AllowanceRefunded
    )
    assert (1, "active") == (recovery(given).used, recovery(given).phase)
    assert [] == problems(given.log)


def test_rec4_transport_and_format_failures_mix_in_one_invocation() -> None:
    given = begun(recovery_limit=2)
    hear(given, broken())
    wait_over(given)
    decision = hear_out(given, answer(submit({"n": "x"})))

    assert ["AllowanceReserved a", "ModelRequested a"] == facts(decision)
    assert 1 == recovery(given).used
    hear(given, broken())
    wait_over(given)
    decision = hear(given, answer(submit({"n": 3})))
    assert ["AllowanceRefunded a", "OutputAccepted a"] == facts(decision)[1:3]
    assert (1, 4, "active") == (
        recovery(given).used,
        given.state.invocations["a"].attempt,
        recovery(given).phase,
    )
    assert 4 == decision.events[2].attempt, "the output names the attempt that produced it"
    assert [] == problems(given.log)


def test_rec4_a_response_without_an_end_gives_nothing_back() -> None:
    given = begun(recovery_limit=3)
    hear(given, broken())
    wait_over(given)

    hear(given, answer(terminal=False, finish_reason=None))
    decision = hear(given, answer(submit({"n": 3})))

    assert not any(isinstance(event.data, AllowanceRefunded) for event in decision.events)
    assert 2 == recovery(given).used


def test_rec33_a_lost_worker_in_between_does_not_part_the_request_from_its_retries() -> None:
    given = begun()
    hear(given, broken())
    wait_over(given)
    lost = given.then()
    assert ["ModelInterrupted a", "ModelRequested a"] == facts(lost)
    assert "a#2" == of(lost, ModelRequested).retry_of

    decision = hear(given, answer(call("look")))

    assert 1 == of(decision, AllowanceRefunded).count


def test_rec8_exhaustion_by_transport_keeps_class_message_and_status() -> None:
    given = begun(recovery_limit=1)
    hear(given, broken())
    wait_over(given)

    decision = hear(given, broken())

    assert ["ModelFailed a", "AllowanceExhausted a", "NodePaused a", "RunPaused"] == facts(decision)
    view = recovery(given)
    assert ("paused", True, True) == (view.phase, view.exhausted, view.transport_exhausted)
    assert ("unavailable", "the provider is unavailable", 503) == (
        view.cause.kind,
        view.cause.message,
        view.cause.status,
    )
    assert "the provider is unavailable" in of(decision, NodePaused).detail


def test_rec8_a_resume_opens_a_fresh_allowance_and_attempts_go_on_counting() -> None:
    given = begun(recovery_limit=1)
    hear(given, broken())
    wait_over(given)
    hear(given, broken())

    given.happened(RunResumed())
    decision = given.then()

    assert (0, 2, 1, 2) == (
        recovery(given).used,
        recovery(given).number,
        recovery(given).resumed_from,
        asked(decision).attempt,
    )
    assert not any(
        isinstance(event.data, AllowanceRefunded)
        for event in hear(given, answer(call("look"))).events
    ), "what the old allowance had reserved is not given to the new one"
    assert [] == problems(given.log)


@pytest.mark.parametrize("kind", ["unauthorized", "forbidden", "not_found", "quota", "bad_request"])
def test_rec9_rec17_what_no_retry_helps_fails_at_once_and_reserves_nothing(kind: str) -> None:
    given = begun()
    cause = Cause(kind=kind, message="no", status=400)

    decision = hear(given, broken(cause=cause, transient=False))

    assert ["ModelFailed a", "NodeFailed a", "RunFailed"] == facts(decision)
    assert (0, "active") == (recovery(given).used, recovery(given).phase)


def test_rec9_a_refusal_after_a_retry_fails_and_is_not_retrying_any_more() -> None:
    given = begun()
    hear(given, broken())
    wait_over(given)

    decision = hear(given, answer(refused=True, finish_reason="stop", text="I will not."))

    assert ["AllowanceRefunded a", "NodeFailed a", "RunFailed"] == facts(decision)[-3:]
    assert "active" == recovery(given).phase


def test_rec13_a_malformed_call_that_the_provider_refused_is_invalid_json() -> None:
    given = begun()
    cause = Cause(kind="malformed_call", message="the provider refused a malformed call")

    decision = hear(given, broken(cause=cause, transient=False))

    assert "invalid_json" == of(decision, AllowanceReserved).reason


def test_rec33_a_request_that_its_worker_gave_up_is_asked_again_for_nothing() -> None:
    given = begun()
    cause = Cause(kind="cancelled", message="the request was cancelled")

    decision = hear(given, Failure(cause=cause, transient=False))

    assert ["ModelInterrupted a", "ModelRequested a"] == facts(decision)
    assert 0 == recovery(given).used


# --- Nested --------------------------------------------------------------------------------------


def test_rec6_a_called_agent_waits_and_retries_by_itself() -> None:
    given = begun(checker={"recovery_limit": 1})
    hear(given, answer(call("call_subagent", subagent="checker", input=1)))
    given.then("s:a.1.1")

    decision = hear(given, broken(), task="s:a.1.1")

    assert "a.1.1" == of(decision, TimerSet).invocation
    assert ("retrying", 1, 0) == (
        recovery(given, "a.1.1").phase,
        recovery(given, "a.1.1").used,
        recovery(given).used,
    )
    assert "running" == given.state.nodes["a"].status
    again = wait_over(given, "s:a.1.1")
    assert ["TimerFired a", "ModelRequested a"] == facts(again)
    for _ in range(2):  # the first gives the transport's attempt back, and takes it again
        hear(given, answer(finish_reason="stop"), task="s:a.1.1")
    assert "exhausted" == given.state.invocations["a.1.1"].reason
    assert (0, "active") == (recovery(given).used, recovery(given).phase)


def test_rec6_two_called_agents_wait_each_on_its_own_timer() -> None:
    given = begun()
    calls = [call("call_subagent", n, subagent="checker", input=n) for n in (1, 2)]
    hear(given, answer(*calls))
    for task in ("s:a.1.1", "s:a.1.2"):
        given.then(task)
    hear(given, broken(), task="s:a.1.1")
    given.at(given.now_ms + 300)
    hear(given, broken(), task="s:a.1.2")

    given.at(given.now_ms + 200)

    assert "TimerFired a" in facts(given.then("s:a.1.1"))
    assert Release("timer", 300) == given.then("s:a.1.2").release


# --- Length at full capacity ---------------------------------------------------------------------


def test_rec19_the_whole_output_of_the_model_twice_is_exhausted_by_length() -> None:
    given = begun(limits={"context_window": 100_000, "max_output_tokens": 1_000}, recovery_limit=5)
    assert {"max_tokens": 1_000} == of_log(given, ModelRequested)[0].sent

    first = hear(given, answer(finish_reason="length"))
    assert "length" == of(first, AllowanceReserved).reason, "told to be brief, it may fit"
    second = hear(given, answer(finish_reason="length"))

    exhausted = of(second, AllowanceExhausted)
    assert ("length", "length") == (exhausted.reason, exhausted.cause.kind)
    assert "its 1000 tokens are all" in exhausted.cause.message
    assert 1 == recovery(given).used


def test_rec10_an_own_limit_is_never_changed_and_the_allowance_decides() -> None:
    given = begun(
        limits={"context_window": 100_000, "max_output_tokens": 1_000},
        max_output_tokens=50,
    )
    for _ in range(2):
        assert {"max_tokens": 50} == of_log(given, ModelRequested)[-1].sent
        assert "AllowanceReserved a" in facts(hear(given, answer(finish_reason="length")))

    assert "AllowanceExhausted a" in facts(hear(given, answer(finish_reason="length")))


def test_rec11_the_cap_that_was_sent_by_default_counts_as_well() -> None:
    given = begun(limits={"context_window": 100_000, "max_output_tokens": 1_000})
    usage = Usage(prompt_tokens=1, completion_tokens=1_000)

    decision = hear(given, answer(submit({"n": 3}), usage=usage))

    assert "length" == of(decision, AllowanceReserved).reason


# --- Context -------------------------------------------------------------------------------------


def long_rounds(given: Given, count: int, size: int = 2_400) -> Any:
    decision: Any = None
    for number in range(1, count + 1):
        hear(given, answer(call("look", q=str(number))))
        text = f"result {number} " + "x" * size
        outcome = ToolOutcome(call_id=f"a.{number}.1", result=Payload.of(text), duration_ms=1)
        decision = given.then(outcome=outcome)
    return decision


def test_rec20_older_tool_rounds_shrink_to_digest_and_excerpt_and_the_newest_stays_whole() -> None:
    given = begun(limits={"context_window": 5_000, "max_output_tokens": 1_000})

    decision = long_rounds(given, 5)

    compacted = of_log(given, HistoryCompacted)
    shortened = [call_id for fact in compacted for call_id in fact.call_ids]
    assert shortened == sorted(set(shortened))
    assert "a.5.1" not in shortened
    assert all(fact.tokens_after < fact.tokens_before for fact in compacted)
    results = [m.content or "" for m in asked(decision).messages if m.role == "tool"]
    assert len(results[0]) < 500
    assert "sha256" in results[0]
    assert "result 1" in results[0]
    assert len(results[-1]) > 2_400
    assert "ModelRequested a" == facts(decision)[-1]


def test_rec20_a_request_that_can_not_be_made_to_fit_pauses_as_context_exceeded() -> None:
    given = begun(limits={"context_window": 5_000, "max_output_tokens": 1_000})

    decision = long_rounds(given, 1, size=20_000)

    assert ["ToolSucceeded a", "NodePaused a", "RunPaused"] == facts(decision)
    assert "context_exceeded" == given.state.reason
    assert "estimate" in of(decision, NodePaused).detail
    assert 0 == recovery(given).used


def test_rec20_the_provider_may_say_that_the_context_is_exceeded() -> None:
    given = begun()
    cause = Cause(kind="context_exceeded", message="the request is longer than the context")

    decision = hear(given, broken(cause=cause, transient=False))

    assert ["ModelFailed a", "NodePaused a", "RunPaused"] == facts(decision)
    assert "context_exceeded" == given.state.reason


@pytest.mark.parametrize("limits", [{}, {"context_window": 9_000}, {"max_output_tokens": 9_000}])
def test_rec20_where_a_limit_is_not_known_no_cap_is_invented(limits: dict[str, int]) -> None:
    assert {} == of_log(begun(limits=limits), ModelRequested)[0].sent


# --- Time ----------------------------------------------------------------------------------------


def test_rec18_a_request_may_take_what_is_left_of_the_nodes_time() -> None:
    given = begun(timeout_ms=10_000)
    assert 10_000 == given.decide().effect.within_ms  # type: ignore[union-attr]

    given.at(given.now_ms + 4_000)

    assert 6_000 == given.decide().effect.within_ms  # type: ignore[union-attr]


def test_rec18_a_deadline_ends_the_invocation_with_its_own_reason() -> None:
    given = begun(timeout_ms=10_000)
    cause = Cause(kind="deadline_exceeded", message="the time is over")

    decision = hear(given, Failure(cause=cause, transient=False))

    assert "deadline_exceeded" == of(decision, NodeFailed).code
    assert 0 == recovery(given).used


def test_rec18_the_time_of_the_run_counts_for_its_agents() -> None:
    given = begun(limits={"deadline_ms": 5_000})
    hear(given, answer(call("look")))
    given.at(given.now_ms + 5_000)

    decision = given.then(
        outcome=ToolOutcome(call_id="a.1.1", result=Payload.of("x"), duration_ms=1)
    )

    assert ["ToolSucceeded a", "NodeFailed a", "RunFailed"] == facts(decision)


def test_rec17_a_wait_leaves_half_of_the_time_to_the_request() -> None:
    given = begun(timeout_ms=600)

    assert 300 == of(hear(given, broken()), TimerSet).delay_ms


def test_rec17_a_retry_after_beyond_the_deadline_is_not_waited_for() -> None:
    given = begun(timeout_ms=10_000)

    decision = hear(given, broken(retry_after_ms=10_000))

    assert ["ModelFailed a", "NodeFailed a", "RunFailed"] == facts(decision)
    assert "deadline_exceeded" == of(decision, NodeFailed).code


def test_rec5_without_an_allowance_the_original_cause_stands_whatever_the_deadline() -> None:
    given = begun(timeout_ms=10_000, recovery_limit=0)

    decision = hear(given, broken(retry_after_ms=10_000))

    assert 503 == of(decision, AllowanceExhausted).cause.status


def test_rec18_a_caller_waits_for_its_agent_no_longer_than_its_time() -> None:
    given = begun(timeout_ms=10_000)
    decision = hear(given, answer(call("call_subagent", subagent="checker", input=1)))
    assert Release("timer", 10_000) == decision.release
    given.then("s:a.1.1")

    over = given.at(given.now_ms + 10_000).then()

    assert ["NodeFailed a", "RunFailed"] == facts(over)
    assert "cancelled" == recovery(given, "a.1.1").phase
    assert Release("end") == given.then("s:a.1.1").release


def test_rec18_a_called_agents_own_time_is_an_answer_to_its_caller() -> None:
    given = begun(checker={"timeout_ms": 1_000})
    hear(given, answer(call("call_subagent", subagent="checker", input=1)))
    given.at(given.now_ms + 1_000)

    decision = given.then("s:a.1.1")

    assert "deadline_exceeded" == of(decision, SubagentFailed).code


def test_rec31_a_write_of_unknown_outcome_is_seen_to_before_the_deadline() -> None:
    given = begun(timeout_ms=1_000)
    hear(given, answer(call("save")))

    decision = given.at(given.now_ms + 2_000).then()

    assert ["ToolOutcomeUnknown a", "NodePaused a", "RunPaused"] == facts(decision)


# --- Cancellation --------------------------------------------------------------------------------


def test_rec27_nothing_is_reserved_after_a_cancellation() -> None:
    given = begun()
    hear(given, answer(call("call_subagent", subagent="checker", input=1)))
    given.then("s:a.1.1")
    request = open_request(given, "a.1.1")
    given.happened(RunCancelRequested())

    late = given.then("s:a.1.1", ModelOutcome(request, broken()))
    ended = given.then()

    assert ([], Release("end")) == (facts(late), late.release)
    assert ["NodeCancelled a", "RunCancelled"] == facts(ended)
    assert ["cancelled", "cancelled"] == [recovery(given, one).phase for one in ("a", "a.1.1")]
    assert (0, 0) == (recovery(given).used, recovery(given, "a.1.1").used)


@pytest.mark.parametrize("ended", ["paused", "cancelled"])
def test_rec8_rec27_what_comes_late_draws_on_nothing(ended: str) -> None:
    given = begun(recovery_limit=0 if ended == "paused" else 2)
    if ended == "paused":
        hear(given, answer(finish_reason="stop"))
    else:
        given.happened(RunCancelRequested()).then()
    before = given.state.invocations["a"]

    late = AllowanceReserved(invocation="a", reason="eof", next_attempt=2, used=1, limit=2)
    given.happened(late, "a", 1)

    assert before == given.state.invocations["a"]
    assert ended == recovery(given).phase


def test_rec27_a_cancellation_ends_a_wait() -> None:
    given = begun()
    hear(given, broken())
    given.happened(RunCancelRequested())

    decision = given.then()

    assert ["NodeCancelled a", "RunCancelled"] == facts(decision)
    assert "cancelled" == recovery(given).phase


def test_a_trace_says_what_is_retried_and_why() -> None:
    given = begun()
    hear(given, broken())
    wait_over(given)

    lines = [step.text for step in fold_trace("run", given.log).steps]

    assert (
        "attempt 2 follows: transport (1 of 2 used): the provider is unavailable (status 503)"
        in lines
    )
    assert "waits 500 ms before attempt 2" in lines
