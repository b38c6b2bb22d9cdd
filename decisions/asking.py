"""
What an agent asks of people: the two harness tools for questions, and the approval of calls.

A question is a turn of its own (REC-14), and its answer the result of that call. A call of a tool
that wants approval is asked for as soon as it is made, with all others of its turn, so that a
person decides on them in one visit. It is started in its place: calls are run in the order in which
they were made, and one that waits holds up those after it. So what ran before what never depends on
when somebody came to decide, and a worker that takes over decides the same (REC-33).
"""

from __future__ import annotations

import msgspec

from mulligan.decisions.question_tools import problems
from mulligan.decisions.turn import Failed
from mulligan.events.facts import (
    InputRequested,
    NodePaused,
    PauseReason,
    ToolApprovalRequested,
    ToolRequested,
)
from mulligan.events.ids import call_id
from mulligan.projections.open_requests import request_of
from mulligan.projections.state import Call, Invocation
from mulligan.providers.port import ToolCall
from mulligan.schemas.plan import AgentPlan, ToolSpec

ISSUES_TOLD = 5
"""Of malformed arguments the model is told at most so many places."""


def question_of(invocation: Invocation, turn: int, call: ToolCall) -> InputRequested | Failed:
    """
    The question that a call of a harness tool asks, or why it is none. Malformed arguments are no
    matter of the overseer's (OVR-3); the agent is asked again under its allowance.
    """
    try:
        given = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return Failed("invalid_json", f"the arguments of {call.name} are not JSON")
    wrong = problems(call.name, given)
    if wrong:
        told = "; ".join(wrong[:ISSUES_TOLD])
        return Failed("schema_violation", f"the arguments of {call.name} do not fit: {told}")
    own_id = call_id(invocation.id, turn, 1)
    return InputRequested(
        request_id=own_id,
        invocation=invocation.id,
        provider_id=call.id or own_id,
        message=given.get("assistant_message"),
        questions=tuple(given.get("questions", ())),
    )


def approval_of(
    agent: AgentPlan, spec: ToolSpec, requested: ToolRequested
) -> ToolApprovalRequested | None:
    """What a person is asked before the call is run; None: nothing."""
    if spec.permission != "ask" and spec.path not in agent.ask_before:
        return None
    return ToolApprovalRequested(
        call_id=requested.call_id,
        tool=requested.tool,
        effect=requested.effect,
        arguments=requested.arguments,
    )


def waits(invocation: Invocation, call: Call) -> NodePaused:
    """The pause of an invocation whose next call waits for a person."""
    reason: PauseReason = (
        "awaiting_input" if call.status == "awaiting_input" else "awaiting_approval"
    )
    detail = request_of(invocation, call).line
    return NodePaused(reason=reason, invocation=invocation.id, detail=detail)
