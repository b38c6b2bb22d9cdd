"""
From an invocation's state to the request that goes on with it.

A conversation is rebuilt from the log at every turn: the prompt, then each turn that ended in tool
calls with the results of those calls. Nothing that was rejected or cut off is in it (REC-11).
"""

from __future__ import annotations

from typing import Any

from mulligan.decisions import scope
from mulligan.decisions.decision import Context
from mulligan.events.facts import OutputMode
from mulligan.events.ids import node_of_invocation, request_id
from mulligan.events.payload import canonical
from mulligan.projections.state import Call, Invocation, RunState, Turn
from mulligan.providers.port import Message, ModelRequest, ToolCall, ToolOffer
from mulligan.schemas.plan import AgentPlan

SUBMIT_OUTPUT = "submit_output"
CALL_SUBAGENT = "call_subagent"
HARNESS_TOOLS = frozenset({SUBMIT_OUTPUT, "request_user_input", "ask_user_question"})
"""The calls that must stand alone in a turn (REC-14)."""

RESULT_EXCERPT_BYTES = 32 * 1024
"""The model sees at most so much of a tool's result, and is told where it was cut (TOOL-1)."""

_INSTRUCTIONS = (
    "You are one step of a workflow. Work with the tools you are given. When you are done, call "
    "submit_output exactly once, alone, with the final output; text outside that call is not read."
)


def next_request(state: RunState, invocation: Invocation, context: Context) -> ModelRequest:
    """The request of the invocation's next turn."""
    agent = state.agent_of(invocation)
    settings = state.plan.settings if state.plan is not None else None
    return ModelRequest(
        request_id=request_id(invocation.id, invocation.recovery.requests + 1),
        model=agent.model or "",
        messages=_messages(state, invocation, agent, context),
        tools=_offers(state, agent),
        mode=mode_of(agent),
        parameters=_parameters(agent),
        output_schema=agent.output_schema,
        api_base=settings.api_base if settings else None,
        node=node_of_invocation(invocation.id),
        attempt=invocation.attempt,
    )


def mode_of(agent: AgentPlan) -> OutputMode:
    """The output mode in force: the hidden submit tool unless the workflow names another."""
    return "tool" if agent.mode == "auto" else agent.mode


def turn_number(invocation: Invocation) -> int:
    """The number of the turn that comes next; a request sent again is the same turn."""
    return len(invocation.turns) + 1


def _parameters(agent: AgentPlan) -> dict[str, Any]:
    asked = {"max_tokens": agent.max_output_tokens, "temperature": agent.temperature}
    return {name: value for name, value in asked.items() if value is not None}


def _messages(
    state: RunState, invocation: Invocation, agent: AgentPlan, context: Context
) -> tuple[Message, ...]:
    messages = [*_opening(state, invocation, agent, context)]
    for turn in invocation.turns:
        messages += _turn(invocation, turn, context)
    return tuple(messages)


def _opening(
    state: RunState, invocation: Invocation, agent: AgentPlan, context: Context
) -> tuple[Message, Message]:
    node = node_of_invocation(invocation.id)
    own = scope.prompt(state, node, agent.system or "", context.value_of)
    system = [part for part in (own, _INSTRUCTIONS) if part]
    if invocation.agent is None:
        user = scope.prompt(state, node, agent.prompt, context.value_of)
    else:
        system.insert(0, agent.prompt)
        given = context.value_of(invocation.input) if invocation.input is not None else None
        user = given if isinstance(given, str) else canonical(given).decode()
    return (
        Message(role="system", content="\n\n".join(system)),
        Message(role="user", content=user),
    )


def _turn(invocation: Invocation, turn: Turn, context: Context) -> list[Message]:
    calls = [invocation.calls[call] for call in turn.calls]
    said = Message(
        role="assistant",
        content=context.value_of(turn.text) if turn.text is not None else None,
        calls=tuple(_echo(call, context) for call in calls),
    )
    answers = [
        Message(role="tool", content=_result(call, context), tool_call_id=call.provider_id)
        for call in calls
    ]
    return [said, *answers]


def _echo(call: Call, context: Context) -> ToolCall:
    arguments = context.value_of(call.arguments)
    if call.effect is None:
        return ToolCall(
            call.provider_id,
            CALL_SUBAGENT,
            canonical({"subagent": call.name, "input": arguments}).decode(),
        )
    return ToolCall(call.provider_id, call.name, canonical(arguments).decode())


def _result(call: Call, context: Context) -> str:
    if call.result is not None:
        value = context.value_of(call.result)
        return _excerpt(value if isinstance(value, str) else canonical(value).decode())
    error = call.error
    told = {"is_error": True, "code": error.kind if error else call.status}
    if error is not None:
        told["message"] = error.message
    return canonical(told).decode()


def _excerpt(text: str) -> str:
    raw = text.encode()
    if len(raw) <= RESULT_EXCERPT_BYTES:
        return text
    kept = raw[:RESULT_EXCERPT_BYTES].decode(errors="ignore")
    return f"{kept}\n[cut here: {len(raw):,} bytes in all, {len(kept.encode()):,} shown]"


# --- What is offered -----------------------------------------------------------------------------


def _offers(state: RunState, agent: AgentPlan) -> tuple[ToolOffer, ...]:
    specs = [state.plan.tools[path] for path in agent.tools] if state.plan is not None else []
    offers = [
        ToolOffer(name=spec.name, description=spec.description, parameters=spec.parameters)
        for spec in specs
    ]
    if agent.subagents:
        offers.append(_call_subagent(agent))
    if mode_of(agent) == "tool":
        offers.append(_submit_output(agent))
    return tuple(offers)


def _submit_output(agent: AgentPlan) -> ToolOffer:
    # References such as #/$defs/item are from the root, so the definitions have to move there.
    output = {key: value for key, value in agent.output_schema.items() if key != "$defs"}
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"output": output, "assistant_message": {"type": ["string", "null"]}},
        "required": ["output", "assistant_message"],
        "additionalProperties": False,
    }
    if "$defs" in agent.output_schema:
        parameters["$defs"] = agent.output_schema["$defs"]
    return ToolOffer(
        name=SUBMIT_OUTPUT,
        description="Hand in the final output. Call it once, alone, when everything is done.",
        parameters=parameters,
    )


def _call_subagent(agent: AgentPlan) -> ToolOffer:
    return ToolOffer(
        name=CALL_SUBAGENT,
        description="Let another agent work on something and read its output.",
        parameters={
            "type": "object",
            "properties": {
                "subagent": {"type": "string", "enum": list(agent.subagents)},
                "input": {"description": "Everything that the agent has to know."},
            },
            "required": ["subagent", "input"],
            "additionalProperties": False,
        },
    )
