"""
What facts about calls change in a run's state: of tools, of agents, and of people.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause
from mulligan.events.ids import invocation_of_call
from mulligan.events.payload import Payload
from mulligan.projections import repairs
from mulligan.projections.changes import (
    Changes,
    goes_on,
    put_node,
    registering,
    settle,
    unpause,
)
from mulligan.projections.state import (
    ANSWERED_CALL,
    ASKS_A_PERSON,
    Call,
    Invocation,
    NodeStatus,
    Recovery,
    RunState,
)

NO_EFFECT = "the effect did not take place"
"""What the caller of a call is told that was reconciled as failed."""

CHANGES: Changes = {}
on = registering(CHANGES)


def _put_call(state: RunState, call: Call) -> None:
    invocation = state.invocations[invocation_of_call(call.id)]
    state.invocations[invocation.id] = replace(
        invocation, calls={**invocation.calls, call.id: call}
    )


def _call(state: RunState, call_id: str) -> Call:
    return state.invocations[invocation_of_call(call_id)].calls[call_id]


@on(facts.ToolRequested)
def _tool_requested(state: RunState, event: Envelope, fact: facts.ToolRequested) -> None:
    _put_call(
        state,
        Call(
            id=fact.call_id,
            name=fact.tool,
            provider_id=fact.provider_id,
            arguments=fact.arguments,
            effect=fact.effect,
            key=fact.key,
        ),
    )


@on(facts.ToolStarted)
def _tool_started(state: RunState, event: Envelope, fact: facts.ToolStarted) -> None:
    call = _call(state, fact.call_id)
    starts = (*call.write_starts, event.id) if call.effect == "write" else ()
    _put_call(
        state,
        replace(call, status="started", executions=fact.execution, write_starts=starts),
    )


@on(facts.ToolSucceeded)
def _tool_succeeded(state: RunState, event: Envelope, fact: facts.ToolSucceeded) -> None:
    call = _call(state, fact.call_id)
    if call.status not in ANSWERED_CALL:
        _put_call(state, replace(call, status="succeeded", result=fact.result, error=None))
        _reconciled_pause(state, fact.call_id, event.time_ms)


@on(facts.ToolFailed)
def _tool_failed(state: RunState, event: Envelope, fact: facts.ToolFailed) -> None:
    call = _call(state, fact.call_id)
    of_before = fact.execution is not None and fact.execution < call.executions
    if call.status not in ANSWERED_CALL and not of_before:
        error = Cause(kind=fact.code, message=fact.message)
        _put_call(state, replace(call, status="failed", error=error))
        _reconciled_pause(state, fact.call_id, event.time_ms)


@on(facts.ToolOutcomeUnknown)
def _tool_unknown(state: RunState, event: Envelope, fact: facts.ToolOutcomeUnknown) -> None:
    call = _call(state, fact.call_id)
    if call.status not in ANSWERED_CALL:
        _put_call(state, replace(call, status="unknown"))


@on(facts.ToolReceiptArrived)
def _receipt_arrived(state: RunState, event: Envelope, fact: facts.ToolReceiptArrived) -> None:
    if fact.outcome == "succeeded" and is_lost_function(state, fact.call_id):
        goes_on(state)
        put_node(state, replace(state.nodes[fact.call_id], status="running", reason=None))
    call = known_call(state, fact.call_id)
    if call is None or not settles(call, fact):
        return
    if fact.outcome == "succeeded":
        _put_call(state, replace(call, status="succeeded", result=fact.result, error=None))
    else:
        error = Cause(kind=fact.code or "failed", message=fact.message or "")
        _put_call(state, replace(call, status="failed", error=error))
    _reconciled_pause(state, call.id, event.time_ms)


def known_call(state: RunState, call_id: str) -> Call | None:
    """A call by its id; None: the log has no such call, as one may that was set back."""
    invocation = state.invocations.get(invocation_of_call(call_id))
    return invocation.calls.get(call_id) if invocation is not None else None


def settles(call: Call, receipt: facts.ToolReceiptArrived) -> bool:
    """
    Whether a receipt that came late says what became of the call. A success does, unless somebody
    has said otherwise. A failure does only where nobody knows better: whoever has taken the call up
    again may yet succeed, or may have taken effect and be lost as well.
    """
    if receipt.outcome == "succeeded":
        return call.status not in ANSWERED_CALL
    newest = receipt.execution == call.executions
    return receipt.outcome == "failed" and newest and call.status == "unknown"


@on(facts.ToolStartLost)
def _start_lost(state: RunState, event: Envelope, fact: facts.ToolStartLost) -> None:
    state.lost_starts = (*state.lost_starts, fact)


@on(facts.EffectReconciled)
def _reconciled(state: RunState, event: Envelope, fact: facts.EffectReconciled) -> None:
    if is_lost_function(state, fact.call_id):
        goes_on(state)
        status: NodeStatus = "ready" if fact.outcome == "retry" else "running"
        put_node(state, replace(state.nodes[fact.call_id], status=status, reason=None))
    if fact.call_id in state.nodes:
        return
    call = _call(state, fact.call_id)
    if call.status != "unknown":
        return
    if fact.outcome == "retry":
        _put_call(state, replace(call, status="requested"))
    elif fact.outcome == "succeeded":
        _put_call(state, replace(call, status="succeeded", result=fact.result))
    else:
        error = Cause(kind="reconciled_as_failed", message=NO_EFFECT)
        _put_call(state, replace(call, status="failed", error=error))
    _reconciled_pause(state, fact.call_id, event.time_ms)


def is_lost_function(state: RunState, node: str) -> bool:
    """Whether a function node waits for somebody to say what became of its call."""
    found = state.nodes.get(node)
    return (
        found is not None
        and (found.status, found.reason) == ("paused", "reconciliation_required")
        and state.function_of(node) is not None
    )


def _reconciled_pause(state: RunState, call_id: str, now_ms: int) -> None:
    """What waited for this call's outcome goes on, once no other call of it is unknown."""
    invocation = state.invocations[invocation_of_call(call_id)]
    unknown = any(call.status == "unknown" for call in invocation.calls.values())
    if invocation.reason == "reconciliation_required" and not unknown:
        goes_on(state)
        unpause(state, invocation, now_ms)


# --- People --------------------------------------------------------------------------------------

ASK_FREELY = "request_user_input"
ASK_QUESTIONS = "ask_user_question"
DENIED = "a person did not allow this call"


@on(facts.InputRequested)
def _input_requested(state: RunState, event: Envelope, fact: facts.InputRequested) -> None:
    """
    To ask is a call whose result is the answer; asked again it does no harm. A function node has
    no conversation; its questions are kept as the calls of one.
    """
    if fact.invocation not in state.invocations:
        asker = Recovery(invocation_id=fact.invocation, limit=0)
        state.invocations[fact.invocation] = Invocation(
            id=fact.invocation, recovery=asker, since_ms=event.time_ms
        )
    given: dict[str, object] = (
        {"questions": list(fact.questions)}
        if fact.questions
        else {"assistant_message": fact.message}
    )
    _put_call(
        state,
        Call(
            id=fact.request_id,
            name=ASK_QUESTIONS if fact.questions else ASK_FREELY,
            provider_id=fact.provider_id,
            arguments=Payload.of(given),
            effect="read",
            status="awaiting_input",
        ),
    )


@on(facts.InputProvided)
def _input_provided(state: RunState, event: Envelope, fact: facts.InputProvided) -> None:
    goes_on(state)
    call = _call(state, fact.request_id)
    if call.status == "awaiting_input":
        _put_call(state, replace(call, status="succeeded", result=fact.answer))
        _person_spoke(state, fact.request_id)
        _call_again(state, fact.request_id)


@on(facts.ToolApprovalRequested)
def _approval_requested(
    state: RunState, event: Envelope, fact: facts.ToolApprovalRequested
) -> None:
    call = _call(state, fact.call_id)
    _put_call(state, replace(call, status="awaiting_approval"))


@on(facts.ToolApproved)
def _approved(state: RunState, event: Envelope, fact: facts.ToolApproved) -> None:
    goes_on(state)
    call = _call(state, fact.call_id)
    if call.status == "awaiting_approval":
        _put_call(state, replace(call, status="requested", approved=True))
        _person_spoke(state, fact.call_id)


@on(facts.ToolDenied)
def _denied(state: RunState, event: Envelope, fact: facts.ToolDenied) -> None:
    goes_on(state)
    call = _call(state, fact.call_id)
    if call.status == "awaiting_approval":
        message = f"{DENIED}: {fact.reason}" if fact.reason else DENIED
        _put_call(
            state, replace(call, status="denied", error=Cause(kind="denied", message=message))
        )
        _person_spoke(state, fact.call_id)


def _person_spoke(state: RunState, call_id: str) -> None:
    """
    What waited for a person goes on, unless its next call in order waits for one too. Its time has
    gone on meanwhile, so it counts from where it did.
    """
    invocation = state.invocations[invocation_of_call(call_id)]
    waits = invocation.next_open
    if invocation.reason in ASKS_A_PERSON and not (waits and waits.status in ASKS_A_PERSON):
        unpause(state, invocation, invocation.since_ms)


def _call_again(state: RunState, request_id: str) -> None:
    """A function that asked is not under way: with the answers it is called anew."""
    node = state.nodes[invocation_of_call(request_id)] if _of_function(state, request_id) else None
    if node is not None and node.status == "running":
        put_node(state, replace(node, status="ready"))


def _of_function(state: RunState, request_id: str) -> bool:
    asker = invocation_of_call(request_id)
    return asker in state.nodes and state.function_of(asker) is not None


# --- Agents --------------------------------------------------------------------------------------


@on(facts.SubagentCalled)
def _subagent_called(state: RunState, event: Envelope, fact: facts.SubagentCalled) -> None:
    _put_call(
        state,
        Call(
            id=fact.invocation,
            name=fact.agent,
            provider_id=fact.provider_id,
            arguments=fact.input,
            status="started",
            section=fact.section,
            part=fact.part,
        ),
    )
    agent = fact.agent if fact.part is None else state.invocations[fact.parent].agent
    recovery = Recovery(invocation_id=fact.invocation, parent_id=fact.parent, limit=0)
    called = Invocation(
        id=fact.invocation,
        recovery=recovery,
        agent=agent,
        input=fact.input,
        part=fact.part,
        since_ms=event.time_ms,
    )
    limit = state.agent_of(called).recovery_limit if state.plan is not None else 0
    state.invocations[called.id] = replace(called, recovery=replace(recovery, limit=limit))
    repairs.call(state, fact)


@on(facts.SubagentCompleted)
def _subagent_completed(state: RunState, event: Envelope, fact: facts.SubagentCompleted) -> None:
    _put_call(state, replace(_call(state, fact.invocation), status="succeeded", result=fact.output))


@on(facts.SubagentFailed)
def _subagent_failed(state: RunState, event: Envelope, fact: facts.SubagentFailed) -> None:
    error = Cause(kind=fact.code, message=fact.message)
    _put_call(state, replace(_call(state, fact.invocation), status="failed", error=error))
    settle(state, fact.invocation, "failed")
