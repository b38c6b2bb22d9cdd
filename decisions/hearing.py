"""
What came of a request, and what follows: calls, an output, another attempt, or an end.
"""

from __future__ import annotations

from typing import Any, assert_never

from msgspec.structs import replace

from mulligan.decisions import allowance, asking, overseer, parts
from mulligan.decisions.allowance import FailedAttempt
from mulligan.decisions.capacity import window_of
from mulligan.decisions.conversation import CALL_SUBAGENT, in_force, turn_number
from mulligan.decisions.decision import Context, ModelOutcome, Step
from mulligan.decisions.ending import event, fail, interrupted, pause
from mulligan.decisions.submission import judged, why_rejected
from mulligan.decisions.turn import AskedUser, Called, Failed, Refused, Submitted, classify
from mulligan.decisions.waiting import TOO_LATE, backoff_ms, left_ms
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    CallMade,
    Cause,
    InputRequested,
    ModelAnswered,
    ModelFailed,
    RetryReason,
    SubagentCalled,
    ToolFailed,
    ToolRequested,
)
from mulligan.events.ids import call_id
from mulligan.events.payload import Payload, digest_of
from mulligan.projections.state import Invocation, OutputRepair, RunState
from mulligan.providers.port import Answer, Failure, ToolCall

REFUSED = Cause(kind="refused", message="the model refused to answer")


def heard(state: RunState, invocation: Invocation, outcome: ModelOutcome, context: Context) -> Step:
    """The step that follows what came of the invocation's open request."""
    if isinstance(outcome.result, Failure):
        return _no_answer(state, invocation, outcome.request_id, outcome.result, context)
    return _answer(state, invocation, outcome.request_id, outcome.result)


# --- Failures ------------------------------------------------------------------------------------


def _no_answer(
    state: RunState, invocation: Invocation, request_id: str, failure: Failure, context: Context
) -> Step:
    if failure.cause.kind == "cancelled":
        # Not by the run, which would not listen any more: the worker stops, another goes on.
        return interrupted(invocation)
    failed = event(
        invocation,
        ModelFailed(
            request_id=request_id,
            invocation=invocation.id,
            cause=failure.cause,
            retry_after_ms=failure.retry_after_ms,
            transient=failure.transient,
        ),
    )
    if failure.transient:
        return _send_again(state, invocation, request_id, failure, failed, context)
    match failure.cause.kind:
        case "malformed_call":
            return _recover(invocation, (failed,), request_id, "invalid_json", failure.cause)
        case "context_exceeded":
            paused = pause(invocation, "context_exceeded", failure.cause.message)
            return Step((failed, paused))
        case _:
            return fail(invocation, (failed,), failure.cause)


def _send_again(
    state: RunState,
    invocation: Invocation,
    request_id: str,
    failure: Failure,
    failed: NewEvent,
    context: Context,
) -> Step:
    """The same request again, after a wait (REC-17); unless nothing would be left of its time."""
    assert state.plan is not None
    delay_ms = backoff_ms(
        state.plan.settings,
        invocation.resends,
        context.chance,
        retry_after_ms=failure.retry_after_ms,
        left_ms=left_ms(state, invocation, context.now_ms),
    )
    if delay_ms is None and invocation.recovery.used < invocation.recovery.limit:
        return fail(invocation, (failed,), TOO_LATE)
    attempt = FailedAttempt(
        reason="transport", cause=failure.cause, request_id=request_id, delay_ms=delay_ms
    )
    facts = allowance.recover(invocation, attempt, invocation.recovery.used)
    return Step((failed, *(event(invocation, fact) for fact in facts)))


def _recover(
    invocation: Invocation,
    before: tuple[NewEvent, ...],
    request_id: str,
    reason: RetryReason,
    cause: Cause,
    *,
    used: int | None = None,
    final: bool = False,
) -> Step:
    """Another attempt after a response of no use, or the end of automatic recovery."""
    attempt = FailedAttempt(reason=reason, cause=cause, request_id=request_id, final=final)
    spent = invocation.recovery.used if used is None else used
    facts = allowance.recover(invocation, attempt, spent)
    return Step((*before, *(event(invocation, fact) for fact in facts)))


# --- Answers -------------------------------------------------------------------------------------


def _answer(state: RunState, invocation: Invocation, request_id: str, answer: Answer) -> Step:
    agent = state.agent_of(invocation)
    request = invocation.request
    mode = request.mode if request is not None else in_force(state, agent)
    cap_sent = request.cap if request is not None else None
    kind = classify(answer, mode, cap_sent)
    if isinstance(kind, Called):
        return _called(state, invocation, request_id, answer, kind)
    if isinstance(kind, AskedUser) and agent.allow_user_input:
        question = asking.question_of(invocation, turn_number(invocation), kind.call)
        if isinstance(question, InputRequested):
            return _asked(invocation, request_id, answer, kind.call, question)
        kind = question
    before, used = _taken(invocation, request_id, answer)
    if isinstance(kind, Submitted):
        output = judged(agent, invocation, answer, kind, cap_sent)
        before = (*before, *(event(invocation, fact) for fact in output.facts))
        if output.failed is None:
            return Step(before)
        if overseer.may_repair(invocation, output):
            return overseer.asked(state, invocation, before, kind, output)
        kind = output.failed
    if isinstance(kind, AskedUser):
        kind = Failed("mixed_turn", "this node does not allow questions to the user")
    match kind:
        case Refused():
            return fail(invocation, before, REFUSED)
        case Failed():
            return _again(state, invocation, before, request_id, kind, used)
        case _:
            assert_never(kind)


def unrepaired(invocation: Invocation, repair: OutputRepair) -> Step:
    """The overseer could not help: what follows is what would have followed without it (OVR-2)."""
    cause = Cause(kind=repair.kind, message=why_rejected(repair.kind, invocation.issues))
    return _recover(invocation, (), invocation.retry_of or "", repair.kind, cause)


def _again(
    state: RunState,
    invocation: Invocation,
    before: tuple[NewEvent, ...],
    request_id: str,
    failed: Failed,
    used: int,
) -> Step:
    cause = Cause(kind=failed.reason, message=failed.message)
    most = _whole_capacity(state, invocation) if failed.reason == "length" else None
    if most is not None:
        message = f"{failed.message} again, and its {most} tokens are all that the model has"
        cause = Cause(kind="length", message=message)
    no_room = most is not None or (failed.reason == "length" and _uncapped(invocation, used))
    if no_room and parts.divisible(state, invocation):
        return parts.request(invocation, before, cause)
    return _recover(
        invocation,
        before,
        request_id,
        failed.reason,
        cause,
        used=used,
        final=most is not None,
    )


def _whole_capacity(state: RunState, invocation: Invocation) -> int | None:
    """
    The model's full output in tokens, if that was not enough for an attempt that had been told to
    be brief: then another would end the same way (REC-19). The first is given its chance whatever
    the limit is; where the model's maximum is not known, the allowance alone decides.
    """
    request, most = invocation.request, window_of(state).max_output
    at_most = request is not None and request.cap is not None and request.cap == most
    return most if _told_to_be_brief(invocation) and at_most else None


def _uncapped(invocation: Invocation, used: int) -> bool:
    """Whether no cap was sent, and the allowance is used up: the model's own limit is too low."""
    request = invocation.request
    uncapped = request is not None and request.cap is None
    return _told_to_be_brief(invocation) and uncapped and used >= invocation.recovery.limit


def _told_to_be_brief(invocation: Invocation) -> bool:
    return invocation.trouble is not None and invocation.trouble.reason == "length"


def _taken(
    invocation: Invocation,
    request_id: str,
    answer: Answer,
    calls: tuple[CallMade, ...] = (),
    text: Payload | None = None,
) -> tuple[tuple[NewEvent, ...], int]:
    """
    What the wire said, what it gives back to the allowance, and what is then spent of it. Text is
    kept for turns that stay in the conversation only (REC-22).
    """
    received = "\x00".join([answer.text, *(call.arguments for call in answer.calls)])
    answered = ModelAnswered(
        request_id=request_id,
        invocation=invocation.id,
        finish_reason=answer.finish_reason,
        terminal=answer.terminal,
        usage=answer.usage,
        served_model=answer.served_model,
        calls=calls,
        text=text,
        digest=digest_of(received.encode("utf-8", "surrogatepass")),
    )
    refunded = allowance.refund(invocation, request_id, answer)
    if refunded is None:
        return (event(invocation, answered),), invocation.recovery.used
    return (event(invocation, answered), event(invocation, refunded)), refunded.used


# --- Calls ---------------------------------------------------------------------------------------


def _asked(
    invocation: Invocation,
    request_id: str,
    answer: Answer,
    call: ToolCall,
    question: InputRequested,
) -> Step:
    """A question is a turn that stays in the conversation; its answer is the call's result."""
    made = CallMade(call_id=question.request_id, provider_id=question.provider_id, name=call.name)
    text = Payload.of(answer.text) if answer.text else None
    before, _ = _taken(invocation, request_id, answer, (made,), text)
    return Step((*before, event(invocation, question)))


def _called(
    state: RunState, invocation: Invocation, request_id: str, answer: Answer, kind: Called
) -> Step:
    turn = turn_number(invocation)
    made: list[CallMade] = []
    requested: list[NewEvent] = []
    for number, (given, arguments) in enumerate(kind.calls, start=1):
        own_id = call_id(invocation.id, turn, number)
        # One id for two calls would leave open whose result is whose.
        unique = given.id and all(given.id != one.provider_id for one in made)
        call = given if unique else replace(given, id=own_id)
        made.append(CallMade(call_id=own_id, provider_id=call.id, name=call.name))
        requested += _request(state, invocation, own_id, call, arguments)
    text = Payload.of(answer.text) if answer.text else None
    before, _ = _taken(invocation, request_id, answer, tuple(made), text)
    return Step((*before, *requested))


def _request(
    state: RunState,
    invocation: Invocation,
    own_id: str,
    call: ToolCall,
    arguments: dict[str, Any],
) -> list[NewEvent]:
    agent = state.agent_of(invocation)
    if call.name == CALL_SUBAGENT and arguments.get("subagent") in agent.subagents:
        called = SubagentCalled(
            invocation=own_id,
            parent=invocation.id,
            agent=str(arguments["subagent"]),
            provider_id=call.id,
            input=Payload.of(arguments.get("input")),
        )
        return [event(invocation, called)]
    spec = state.tool_of(invocation, call.name)
    requested = ToolRequested(
        call_id=own_id,
        invocation=invocation.id,
        tool=call.name,
        provider_id=call.id,
        arguments=Payload.of(arguments),
        effect=spec.effect_of(arguments) if spec else "read",
        key=f"{state.run}:{own_id}",
    )
    if spec is not None:
        approval = asking.approval_of(agent, spec, requested)
        return [event(invocation, fact) for fact in (requested, approval) if fact is not None]
    unknown = ToolFailed(
        call_id=own_id, code="unknown_tool", message="there is no tool of that name here"
    )
    return [event(invocation, requested), event(invocation, unknown)]
