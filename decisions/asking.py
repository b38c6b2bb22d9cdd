"""
What is asked of people: the questions of agents, by two harness tools, the approval of their calls,
and the questions of function nodes.

A question is a turn of its own (REC-14), and its answer the result of that call. A call of a tool
that wants approval is asked for as soon as it is made, with all others of its turn, so that a
person decides on them in one visit. It is started in its place: calls are run in the order in which
they were made, and one that waits holds up those after it. So what ran before what never depends on
when somebody came to decide, and a worker that takes over decides the same (REC-33).

A function node asks by what it raises. It is called again once its questions are answered, so that
no code waits for people.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mulligan.decisions.decision import Step
from mulligan.decisions.question_tools import problems
from mulligan.decisions.turn import Failed
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    InputRequested,
    NodePaused,
    PauseReason,
    ToolApprovalRequested,
    ToolRequested,
)
from mulligan.events.ids import call_id
from mulligan.events.payload import Payload
from mulligan.projections.open_requests import excerpt, request_of
from mulligan.projections.state import Call, Invocation, Node, RunState
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


# --- Functions -----------------------------------------------------------------------------------


def function_asks(state: RunState, node: Node, questions: tuple[dict[str, Any], ...]) -> Step:
    """A function node asks people, and waits."""
    before = state.invocations.get(node.id)
    own_id = call_id(node.id, len(before.calls) + 1 if before is not None else 1, 1)
    asked = InputRequested(
        request_id=own_id, invocation=node.id, provider_id=own_id, questions=questions
    )
    detail = excerpt(f"{own_id} asks: {' | '.join(one['question'] for one in questions)}")
    pause = NodePaused(reason="awaiting_input", invocation=node.id, detail=detail)
    return Step(tuple(NewEvent(one, node=node.id, attempt=node.attempt) for one in (asked, pause)))


def answers_in(state: RunState, node: Node, value_of: Callable[[Payload], Any]) -> dict[str, str]:
    """What people have answered to a function node, by question id; the last answer counts."""
    asker = state.invocations.get(node.id)
    answered: dict[str, str] = {}
    for call in asker.calls.values() if asker is not None else ():
        if call.result is not None:
            answered |= value_of(call.result)
    return answered
