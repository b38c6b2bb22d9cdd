"""
From an invocation's state to the request that goes on with it.

A conversation is rebuilt from the log at every turn: the prompt, then each turn that ended in tool
calls with the results of those calls, then what was wrong with the last response, if something was.
Nothing that was rejected or cut off is in it (REC-11).
"""

from __future__ import annotations

from typing import Any, assert_never

from mulligan.decisions import scope
from mulligan.decisions.decision import Context
from mulligan.decisions.output_mode import fits_native, mode_of
from mulligan.decisions.question_tools import OFFERS
from mulligan.decisions.regeneration import note
from mulligan.events.facts import OutputMode
from mulligan.events.ids import node_of_invocation, request_id
from mulligan.events.payload import Payload, canonical
from mulligan.projections.calls import ASK_FREELY, ASK_QUESTIONS
from mulligan.projections.state import Call, Invocation, RunState, Turn
from mulligan.providers.endpoints import holds_to_schemas
from mulligan.providers.port import Message, ModelRequest, ToolCall, ToolOffer
from mulligan.schemas.plan import AgentPlan, ToolSpec
from mulligan.schemas.strict import strict_schema

SUBMIT_OUTPUT = "submit_output"
CALL_SUBAGENT = "call_subagent"
HARNESS_TOOLS = frozenset({SUBMIT_OUTPUT, ASK_FREELY, ASK_QUESTIONS})
"""The calls that must stand alone in a turn (REC-14)."""

RESULT_EXCERPT_BYTES = 32 * 1024
"""The model sees at most so much of a tool's result, and is told where it was cut (TOOL-1)."""

COMPACT_CHARACTERS = 400
"""Of a tool round that was compacted, arguments and results beyond this are shortened (REC-20)."""
EXCERPT_CHARACTERS = 200
"""How much of them is still shown."""

_BY_CALL = (
    "You are one step of a workflow. Work with the tools you are given. When you are done, call "
    "submit_output exactly once, alone, with the final output; text outside that call is not read."
)
_BY_TEXT = (
    "You are one step of a workflow. Work with the tools you are given, if any. When you are done, "
    "answer with the final output as one JSON value and nothing else"
)


def next_request(state: RunState, invocation: Invocation, context: Context) -> ModelRequest:
    """The request of the invocation's next turn, with the parameters that the workflow sets."""
    agent = state.agent_of(invocation)
    settings = state.plan.settings if state.plan is not None else None
    mode = in_force(state, agent)
    return ModelRequest(
        request_id=request_id(invocation.id, invocation.recovery.requests + 1),
        model=agent.model or "",
        messages=_messages(state, invocation, agent, mode, context),
        tools=_offers(state, agent, mode),
        mode=mode,
        parameters=_parameters(agent),
        output_schema=agent.output_schema,
        api_base=settings.api_base if settings else None,
        node=node_of_invocation(invocation.id),
        attempt=invocation.attempt,
    )


def in_force(state: RunState, agent: AgentPlan) -> OutputMode:
    """The output mode of an agent's requests (REC-24)."""
    return mode_of(agent, state.plan.settings.api_base if state.plan is not None else None)


def turn_number(invocation: Invocation) -> int:
    """The number of the turn that comes next; a request sent again is the same turn."""
    return len(invocation.turns) + 1


def _parameters(agent: AgentPlan) -> dict[str, Any]:
    asked = {"max_tokens": agent.max_output_tokens, "temperature": agent.temperature}
    return {name: value for name, value in asked.items() if value is not None}


def _messages(
    state: RunState,
    invocation: Invocation,
    agent: AgentPlan,
    mode: OutputMode,
    context: Context,
) -> tuple[Message, ...]:
    messages = [*_opening(state, invocation, agent, mode, context)]
    for turn in invocation.turns:
        messages += round_of(invocation, turn, context)
    if invocation.trouble is not None:
        messages.append(note(invocation.trouble, mode))
    return tuple(messages)


def _opening(
    state: RunState,
    invocation: Invocation,
    agent: AgentPlan,
    mode: OutputMode,
    context: Context,
) -> tuple[Message, Message]:
    node = node_of_invocation(invocation.id)
    own = scope.prompt(state, node, agent.system or "", context.value_of)
    system = [part for part in (own, _instructions(agent, mode)) if part]
    if invocation.agent is not None:
        system.insert(0, agent.prompt)
    return (
        Message(role="system", content="\n\n".join(system)),
        Message(role="user", content=user_message(state, invocation, context)),
    )


def user_message(state: RunState, invocation: Invocation, context: Context) -> str:
    """
    What an invocation is asked: a node's prompt, filled in; or what a called agent, or a part of
    divided work, was given.
    """
    if invocation.agent is None and invocation.part is None:
        prompt = state.agent_of(invocation).prompt
        return scope.prompt(state, node_of_invocation(invocation.id), prompt, context.value_of)
    given = context.value_of(invocation.input) if invocation.input is not None else None
    return given if isinstance(given, str) else canonical(given).decode()


def _instructions(agent: AgentPlan, mode: OutputMode) -> str:
    match mode:
        case "tool":
            return _BY_CALL
        case "native":
            return f"{_BY_TEXT}."
        case "prompt":
            schema = canonical(agent.output_schema).decode()
            return f"{_BY_TEXT}; it must fit this JSON Schema:\n{schema}"
        case _:
            assert_never(mode)


def round_of(invocation: Invocation, turn: Turn, context: Context) -> list[Message]:
    """The messages of a complete tool round; of one that was compacted, shortened."""
    calls = [invocation.calls[call] for call in turn.calls]
    compact = set(turn.calls) <= set(invocation.compacted)
    said = Message(
        role="assistant",
        content=context.value_of(turn.text) if turn.text is not None else None,
        calls=tuple(_echo(call, context, compact) for call in calls),
    )
    answers = [
        Message(role="tool", content=_result(call, context, compact), tool_call_id=call.provider_id)
        for call in calls
    ]
    return [said, *answers]


def _echo(call: Call, context: Context, compact: bool) -> ToolCall:
    arguments = context.value_of(call.arguments)
    text = canonical(arguments).decode()
    if compact and len(text) > COMPACT_CHARACTERS:
        arguments = {"shortened": _shortened(text, call.arguments)}
    if call.effect is None:
        return ToolCall(
            call.provider_id,
            CALL_SUBAGENT,
            canonical({"subagent": call.name, "input": arguments}).decode(),
        )
    return ToolCall(call.provider_id, call.name, canonical(arguments).decode())


def _result(call: Call, context: Context, compact: bool) -> str:
    if call.result is not None:
        value = context.value_of(call.result)
        text = value if isinstance(value, str) else canonical(value).decode()
        if compact and len(text) > COMPACT_CHARACTERS:
            return _shortened(text, call.result)
        return _excerpt(text)
    error = call.error
    if call.status == "denied" and error is not None:  # an answer, not an error (TOOL-2)
        return canonical(
            {"outcome": "not_started", "code": "denied", "message": error.message}
        ).decode()
    told = {"is_error": True, "code": error.kind if error else call.status}
    if error is not None:
        told["message"] = error.message
    return canonical(told).decode()


def _shortened(text: str, payload: Payload) -> str:
    """Digest and excerpt of what an older round held."""
    return (
        f"[shortened to fit the context: {payload.size:,} bytes, sha256 {payload.digest[:16]}; "
        f"it begins:] {text[:EXCERPT_CHARACTERS]}"
    )


def _excerpt(text: str) -> str:
    raw = text.encode()
    if len(raw) <= RESULT_EXCERPT_BYTES:
        return text
    kept = raw[:RESULT_EXCERPT_BYTES].decode(errors="ignore")
    return f"{kept}\n[cut here: {len(raw):,} bytes in all, {len(kept.encode()):,} shown]"


# --- What is offered -----------------------------------------------------------------------------


def _offers(state: RunState, agent: AgentPlan, mode: OutputMode) -> tuple[ToolOffer, ...]:
    specs = [state.plan.tools[path] for path in agent.tools] if state.plan is not None else []
    api_base = state.plan.settings.api_base if state.plan is not None else None
    held = holds_to_schemas(agent.model or "", api_base)
    offers = [_offer(spec, held) for spec in specs]
    if agent.subagents:
        offers.append(_call_subagent(agent))
    if agent.allow_user_input:
        offers += OFFERS
    if mode == "tool":
        offers.append(_submit_output(agent))
    return tuple(offers)


def _offer(spec: ToolSpec, held: bool) -> ToolOffer:
    """
    A tool with its arguments in the strict form (READ-2): what is optional is required and may be
    null. A provider that is known to hold its models to schemas is told to, where it can. A
    server's schema stays as it is: it alone knows what its nulls and further properties mean.
    """
    parameters = strict_schema(spec.parameters) if spec.mcp is None else spec.parameters
    return ToolOffer(
        name=spec.name,
        description=spec.description,
        parameters=parameters,
        strict=held and fits_native(parameters),
    )


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
