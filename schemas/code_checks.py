"""Whether the tools, functions, subagents and schemas that a definition names can be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mulligan.errors import InvalidInput
from mulligan.schemas.author_schema import check_author_schema, misfit_of, schema_problems
from mulligan.schemas.call_names import (
    DECOMPOSE_NAMES,
    GATES_NAMES,
    JOIN_NAMES,
    REWORK_NAMES,
    call_problems,
)
from mulligan.schemas.code_table import CodeTable
from mulligan.schemas.draft import Draft
from mulligan.schemas.mcp_tools import ServerUnfit, mcp_names
from mulligan.schemas.problems import Place, Problem, did_you_mean
from mulligan.schemas.scope import offered_names
from mulligan.schemas.workflow import AgentDefinition, AgentNode, FunctionNode, RepairNode, WaitNode

__all__ = ["HARNESS_TOOLS", "code_problems"]

BROWSER = "web_use"
"""The tool that is an agent's one way to the web (WEB-10)."""
READ = "mulligan.tools.read.tool:read"
"""The tool that reads files."""

HARNESS_TOOLS = ("submit_output", "request_user_input", "ask_user_question", "call_subagent")
"""Names that the runtime's own tools have in every conversation."""


def code_problems(draft: Draft, code: CodeTable) -> Iterator[Problem]:
    """Everything named outside the graph that can't be used, with its place."""
    if draft.input_schema is not None:
        for message in schema_problems(draft.input_schema):
            yield _in_schema(message, draft.input_schema, ("input_schema",))
    unfit: set[str] = set()
    for place, agent in draft.prompted():
        yield from _tool_problems(agent.tools, (*place, "tools"), code, unfit)
        yield from _approval_problems(agent, (*place, "ask_before"))
        yield from _browsing_problems(agent, (*place, "tools"), draft, code)
        yield from _reading_problems(agent, (*place, "tools"), draft)
        yield from _agent_problems(agent, place, draft, code)
    for position, node in draft.nodes.items():
        if isinstance(node, FunctionNode):
            offered = offered_names(node, draft)
            yield from _call_problems(node.call, ("nodes", position, "call"), offered, code)
        elif isinstance(node, RepairNode):
            yield from _repair_problems(node, ("nodes", position), draft, code)
        elif isinstance(node, WaitNode):
            yield from _wait_problems(node, ("nodes", position), draft)


def _wait_problems(node: WaitNode, place: Place, draft: Draft) -> Iterator[Problem]:
    """Which of several nodes takes a signal is not known when it is sent: all want the same."""
    same = (other for other in draft.nodes.values() if isinstance(other, WaitNode))
    first = next(other for other in same if other.signal == node.signal)
    if first.data_schema != node.data_schema:
        message = f"{first.id!r} waits for the same signal with another schema; use one for both"
        yield Problem((*place, "schema"), message)
    if node.data_schema is None:
        return
    wrong = schema_problems(node.data_schema)
    for message in wrong:
        yield _in_schema(message, node.data_schema, (*place, "schema"))
    if not wrong and node.has_default:
        misfit = misfit_of(node.default, node.data_schema)
        if misfit is not None:
            yield Problem((*place, "default"), f"it does not fit the node's schema: {misfit}")


def _agent_problems(
    agent: AgentDefinition, place: Place, draft: Draft, code: CodeTable
) -> Iterator[Problem]:
    yield from _subagent_problems(agent.subagents, (*place, "subagents"), draft)
    if agent.output_schema is not None:
        for message in check_author_schema(agent.output_schema):
            yield _in_schema(message, agent.output_schema, (*place, "output_schema"))
    yield from _division_problems(agent, place, draft, code)
    cap, most = agent.max_output_tokens, draft.settings.limits.max_output_tokens
    if cap is not None and most is not None and cap > most:
        yield Problem((*place, "max_output_tokens"), f"settings.limits allow {most} at most")


def _division_problems(
    agent: AgentDefinition, place: Place, draft: Draft, code: CodeTable
) -> Iterator[Problem]:
    offered = offered_names(agent, draft) if isinstance(agent, AgentNode) else ()
    if agent.decompose is not None:
        names = (*DECOMPOSE_NAMES, *offered)
        yield from _call_problems(agent.decompose, (*place, "decompose"), names, code)
        if agent.join is None:
            message = "it needs a join, so that the output fits its schema, in parts or not"
            yield Problem((*place, "decompose"), message)
    if agent.join is not None:
        yield from _call_problems(agent.join, (*place, "join"), (*JOIN_NAMES, *offered), code)
        if agent.decompose is None:
            yield Problem((*place, "join"), "it joins what decompose splits, and there is none")


def _tool_problems(
    paths: list[str], place: Place, code: CodeTable, unfit: set[str]
) -> Iterator[Problem]:
    """`unfit` are the MCP servers of which is told already, each once however many want it."""
    names: dict[str, str] = {}
    for item, path in enumerate(paths):
        try:
            name = code.tool(path).name
        except InvalidInput as error:
            server = mcp_names(path)
            if not isinstance(error, ServerUnfit) or server is None or server[0] not in unfit:
                yield Problem(place, f"{path}: {error}" if server else str(error), item=item)
            if isinstance(error, ServerUnfit) and server is not None:
                unfit.add(server[0])
            continue
        first = names.setdefault(name, path)
        if name in HARNESS_TOOLS:
            yield Problem(place, f"{name!r} is the name of a tool of the runtime", item=item)
        elif first != path:
            where = "@tool(name=…)" if mcp_names(path) is None else "name: under mcp"
            message = f"{first} and {path} are both named {name!r}; set another by {where}"
            yield Problem(place, message, item=item)
        elif path in paths[:item]:
            yield Problem(place, f"{path!r} is named twice", item=item)


def _browsing_problems(
    agent: AgentDefinition, place: Place, draft: Draft, code: CodeTable
) -> Iterator[Problem]:
    """An agent that browses has to be told where it may go (WEB-7)."""
    for item, path in enumerate(agent.tools):
        try:
            browses = code.tool(path).name == BROWSER
        except InvalidInput:
            continue
        if browses and not draft.settings.web.allow:
            message = "settings.web.allow names the hosts that it may browse; it names none"
            yield Problem(place, message, item=item)


def _reading_problems(agent: AgentDefinition, place: Place, draft: Draft) -> Iterator[Problem]:
    """An agent that reads files has to be told which (READ-1)."""
    if READ in agent.tools and not draft.settings.read_roots:
        message = "settings.read_roots names the folders that it may read; it names none"
        yield Problem(place, message, item=agent.tools.index(READ))


def _approval_problems(agent: AgentDefinition, place: Place) -> Iterator[Problem]:
    for item, path in enumerate(agent.ask_before):
        if path not in agent.tools:
            hint = did_you_mean(path, agent.tools)
            yield Problem(place, f"{path!r} is none of this agent's tools{hint}", item=item)
        elif path in agent.ask_before[:item]:
            yield Problem(place, f"{path!r} is named twice", item=item)


def _repair_problems(
    node: RepairNode, place: Place, draft: Draft, code: CodeTable
) -> Iterator[Problem]:
    offered = offered_names(node, draft)
    yield from _call_problems(node.gates, (*place, "gates"), (*GATES_NAMES, *offered), code)
    yield from _call_problems(node.rework, (*place, "rework"), (*REWORK_NAMES, *offered), code)
    yield from _subagent_problems(node.agents, (*place, "agents"), draft)
    if node.reviewer is not None and node.reviewer not in draft.agent_names:
        hint = did_you_mean(node.reviewer, draft.agent_names)
        yield Problem((*place, "reviewer"), f"no agent {node.reviewer!r} under agents{hint}")
    if node.estimates_usd != sorted(node.estimates_usd):
        yield Problem((*place, "estimates_usd"), "these are cumulative, and never fall")


def _subagent_problems(names: list[str], place: Place, draft: Draft) -> Iterator[Problem]:
    for item, name in enumerate(names):
        if name not in draft.agent_names:
            hint = did_you_mean(name, draft.agent_names)
            yield Problem(place, f"no agent {name!r} under agents{hint}", item=item)
        elif name in names[:item]:
            yield Problem(place, f"{name!r} is named twice", item=item)


def _in_schema(message: str, schema: dict[str, Any], place: Place) -> Problem:
    """A problem `/properties/a: …` of a schema, at that place of the file."""
    path, _, text = message.partition(": ")
    steps: list[str | int] = []
    found: Any = schema
    for piece in filter(None, path.split("/")):
        step = int(piece) if isinstance(found, list) and piece.isdigit() else piece
        try:
            found = found[step]
        except (LookupError, TypeError):
            return Problem(place, message)
        steps.append(step)
    return Problem((*place, *steps), text)


def _call_problems(
    path: str, place: Place, offered: tuple[str, ...], code: CodeTable
) -> Iterator[Problem]:
    try:
        function = code.function(path)
    except InvalidInput as error:
        yield Problem(place, str(error))
        return
    for message in call_problems(path, function, offered):
        yield Problem(place, message)
