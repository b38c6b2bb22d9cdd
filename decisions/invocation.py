"""
The turns of an agent, from its prompt to its final output: one step at a time.
"""

from __future__ import annotations

from typing import Any

from mulligan.completion.protocol import complete
from mulligan.completion.verdict import (
    Completed,
    Evidence,
    InvalidJson,
    SchemaViolation,
    TruncatedResponse,
    Verdict,
    WrongEnvelope,
)
from mulligan.completion.verdict import Refused as RefusedOutput
from mulligan.decisions import effects
from mulligan.decisions.conversation import CALL_SUBAGENT, mode_of, next_request, turn_number
from mulligan.decisions.decision import (
    AskModel,
    Context,
    ModelOutcome,
    Outcome,
    Release,
    Step,
    ToolOutcome,
)
from mulligan.decisions.turn import AskedUser, Called, Failed, Refused, Submitted, classify
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    AllowanceExhausted,
    CallMade,
    Cause,
    Fact,
    ModelAnswered,
    ModelFailed,
    ModelInterrupted,
    ModelRequested,
    NodeCompleted,
    NodeFailed,
    NodePaused,
    OutputAccepted,
    OutputIssue,
    OutputRejected,
    PauseReason,
    RetryReason,
    SubagentCalled,
    SubagentCompleted,
    SubagentFailed,
    ToolFailed,
    ToolRequested,
)
from mulligan.events.ids import call_id, node_of_invocation
from mulligan.events.payload import Payload, digest_of
from mulligan.projections.state import ANSWERED_CALL, Invocation, RunState
from mulligan.providers.port import Answer, Failure, ToolCall

MAX_INTERRUPTED = 3
"""Requests of one turn that lost workers may leave unanswered before the node is parked."""


def proceed(
    state: RunState, invocation: Invocation, context: Context, outcome: Outcome | None
) -> Step:
    """The next step of an invocation that has not ended; `outcome` is what its last effect gave."""
    if isinstance(outcome, ModelOutcome):
        return _heard(state, invocation, outcome, context)
    if isinstance(outcome, ToolOutcome):
        return Step((_event(invocation, effects.receipt(outcome)),))
    if invocation.status != "active":
        return Step(release=Release("wait"))
    if invocation.request is not None:
        return _interrupted(invocation)
    return effects.next_call(state, invocation, context) or _ask(state, invocation, context)


def _event(invocation: Invocation, fact: Fact) -> NewEvent:
    return NewEvent(fact, node=node_of_invocation(invocation.id), attempt=invocation.attempt)


# --- Asking --------------------------------------------------------------------------------------


def _ask(state: RunState, invocation: Invocation, context: Context) -> Step:
    """The next request, its intent first; unless calls of the turn are still open elsewhere."""
    if any(call.status not in ANSWERED_CALL for call in invocation.calls.values()):
        return Step(release=Release("wait"))
    request = next_request(state, invocation, context)
    prepared = context.prepare(request)
    asked = ModelRequested(
        request_id=request.request_id,
        invocation=invocation.id,
        turn=turn_number(invocation),
        mode=request.mode,
        model=prepared.model,
        digest=prepared.digest,
        asked=request.parameters,
        sent=prepared.sent,
    )
    return Step((_event(invocation, asked),), effect=AskModel(prepared))


def _interrupted(invocation: Invocation) -> Step:
    """A request that a lost worker had sent: asked again under a cap of its own (REC-33)."""
    assert invocation.request is not None
    lost = ModelInterrupted(request_id=invocation.request.id, invocation=invocation.id)
    if invocation.interrupted + 1 < MAX_INTERRUPTED:
        return Step((_event(invocation, lost),))
    detail = f"{MAX_INTERRUPTED} workers in a row were lost during a request of this turn"
    return Step((_event(invocation, lost), _pause(invocation, "parked", detail)))


def _pause(invocation: Invocation, reason: PauseReason, detail: str) -> NewEvent:
    return _event(invocation, NodePaused(reason=reason, invocation=invocation.id, detail=detail))


# --- Hearing -------------------------------------------------------------------------------------


def _heard(
    state: RunState, invocation: Invocation, outcome: ModelOutcome, context: Context
) -> Step:
    result = outcome.result
    if isinstance(result, Failure):
        return _no_answer(invocation, outcome.request_id, result)
    agent = state.agent_of(invocation)
    kind = classify(result, mode_of(agent), agent.max_output_tokens)
    match kind:
        case Called():
            return _called(state, invocation, outcome.request_id, result, kind)
        case Submitted():
            answered = _answered(invocation, outcome.request_id, result)
            return _submitted(state, invocation, answered, result, kind)
        case Refused():
            answered = _answered(invocation, outcome.request_id, result)
            return _fail(invocation, (answered,), "refused", "the model refused to answer")
        case AskedUser():
            failed = Failed("mixed_turn", "this node does not allow questions to the user")
            answered = _answered(invocation, outcome.request_id, result)
            return _give_up(invocation, (answered,), failed.reason, failed.message)
        case Failed():
            answered = _answered(invocation, outcome.request_id, result)
            return _give_up(invocation, (answered,), kind.reason, kind.message)


def _answered(
    invocation: Invocation,
    request_id: str,
    answer: Answer,
    calls: tuple[CallMade, ...] = (),
    text: Payload | None = None,
) -> NewEvent:
    """What the wire said. Text is kept for turns that stay in the conversation only (REC-22)."""
    received = "\x00".join([answer.text, *(call.arguments for call in answer.calls)])
    return _event(
        invocation,
        ModelAnswered(
            request_id=request_id,
            invocation=invocation.id,
            finish_reason=answer.finish_reason,
            terminal=answer.terminal,
            usage=answer.usage,
            served_model=answer.served_model,
            calls=calls,
            text=text,
            digest=digest_of(received.encode("utf-8", "surrogatepass")),
        ),
    )


def _no_answer(invocation: Invocation, request_id: str, failure: Failure) -> Step:
    failed = _event(
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
        return _exhaust(invocation, (failed,), "transport", failure.cause)
    return _fail(invocation, (failed,), failure.cause.kind, failure.cause.message)


def _give_up(
    invocation: Invocation, before: tuple[NewEvent, ...], reason: RetryReason, message: str
) -> Step:
    return _exhaust(invocation, before, reason, Cause(kind=reason, message=message))


def _exhaust(
    invocation: Invocation, before: tuple[NewEvent, ...], reason: RetryReason, cause: Cause
) -> Step:
    """The end of automatic recovery: the phase first, then the pause that people see (REC-8)."""
    exhausted = AllowanceExhausted(invocation=invocation.id, reason=reason, cause=cause)
    paused = _pause(invocation, "exhausted", cause.message)
    return Step((*before, _event(invocation, exhausted), paused))


def _fail(invocation: Invocation, before: tuple[NewEvent, ...], code: str, message: str) -> Step:
    """The end of an invocation that no retry could help: its node fails, or its caller is told."""
    failed: Fact = (
        NodeFailed(code=code, message=message)
        if invocation.parent is None
        else SubagentFailed(invocation=invocation.id, code=code, message=message)
    )
    return Step((*before, _event(invocation, failed)))


# --- Calls ---------------------------------------------------------------------------------------


def _called(
    state: RunState, invocation: Invocation, request_id: str, answer: Answer, kind: Called
) -> Step:
    turn = turn_number(invocation)
    made: list[CallMade] = []
    requested: list[NewEvent] = []
    for number, (call, arguments) in enumerate(kind.calls, start=1):
        own_id = call_id(invocation.id, turn, number)
        made.append(CallMade(call_id=own_id, provider_id=call.id or own_id, name=call.name))
        requested += _request(state, invocation, own_id, call, arguments)
    text = Payload.of(answer.text) if answer.text else None
    answered = _answered(invocation, request_id, answer, tuple(made), text)
    return Step((answered, *requested))


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
            provider_id=call.id or own_id,
            input=Payload.of(arguments.get("input")),
        )
        return [_event(invocation, called)]
    spec = state.tool_of(invocation, call.name)
    requested = ToolRequested(
        call_id=own_id,
        invocation=invocation.id,
        tool=call.name,
        provider_id=call.id or own_id,
        arguments=Payload.of(arguments),
        effect=spec.effect if spec else "read",
        key=f"{state.run}:{own_id}",
    )
    if spec is not None:
        return [_event(invocation, requested)]
    unknown = ToolFailed(
        call_id=own_id, code="unknown_tool", message="there is no tool of that name here"
    )
    return [_event(invocation, requested), _event(invocation, unknown)]


# --- Output --------------------------------------------------------------------------------------


def _submitted(
    state: RunState,
    invocation: Invocation,
    answered: NewEvent,
    answer: Answer,
    kind: Submitted,
) -> Step:
    agent = state.agent_of(invocation)
    verdict = complete(
        kind.raw,
        agent.output_schema,
        Evidence(
            finish_reason=answer.finish_reason,
            terminal=answer.terminal,
            completion_tokens=answer.usage.completion_tokens if answer.usage else None,
            max_tokens_sent=agent.max_output_tokens,
        ),
        mode="prompt" if kind.call is None else "tool",
        accept_missing_closers=agent.accept_missing_closers,
    )
    if isinstance(verdict, Completed):
        return _accept(invocation, answered, verdict)
    rejected = _event(invocation, _rejection(invocation, kind.raw, verdict))
    if isinstance(verdict, RefusedOutput):
        return _fail(invocation, (answered, rejected), "refused", "the model refused to answer")
    reason, message = _why(verdict)
    return _give_up(invocation, (answered, rejected), reason, message)


def _accept(invocation: Invocation, answered: NewEvent, verdict: Completed) -> Step:
    output = Payload.of(verdict.output)
    accepted = OutputAccepted(
        invocation=invocation.id,
        digest=output.digest,
        assistant_message=verdict.assistant_message,
        steps=tuple(step.name for step in verdict.steps),
        coercions=tuple(f"{one.rule} {one.path}" for one in verdict.coercions),
    )
    ended: Fact = (
        NodeCompleted(output=output)
        if invocation.parent is None
        else SubagentCompleted(
            invocation=invocation.id, output=output, assistant_message=verdict.assistant_message
        )
    )
    return Step((answered, _event(invocation, accepted), _event(invocation, ended)))


def _rejection(invocation: Invocation, raw: str, verdict: Verdict) -> OutputRejected:
    text = raw.encode("utf-8", "surrogatepass")
    return OutputRejected(
        invocation=invocation.id,
        kind=_KINDS[type(verdict)],
        issues=tuple(
            OutputIssue(
                code=issue.code,
                path=issue.path,
                schema_path=issue.schema_path,
                message=issue.message,
            )
            for issue in getattr(verdict, "issues", ())
        ),
        digest=digest_of(text),
        bytes=len(text),
    )


_KINDS: dict[type, Any] = {
    TruncatedResponse: "truncated",
    RefusedOutput: "refused",
    InvalidJson: "invalid_json",
    WrongEnvelope: "wrong_envelope",
    SchemaViolation: "schema_violation",
}


def _why(verdict: Verdict) -> tuple[RetryReason, str]:
    match verdict:
        case TruncatedResponse():
            return "length", "the output is cut off"
        case WrongEnvelope():
            return "wrong_envelope", "the output is not in the form that was asked for"
        case SchemaViolation():
            return "schema_violation", "the output does not fit its schema"
        case _:
            return "invalid_json", "the output is not JSON"
