"""A definition as far as it could be read: what the checks look at, even beside broken parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from mulligan.schemas.author_schema import DEFAULT_OUTPUT_SCHEMA
from mulligan.schemas.outline import ANYTHING, list_of
from mulligan.schemas.problems import Place
from mulligan.schemas.workflow import (
    AgentDefinition,
    AgentNode,
    AnyNode,
    McpServerDefinition,
    Node,
    Settings,
    WaitNode,
    WorkflowDefinition,
)

__all__ = ["Draft", "draft_of", "output_outline", "salvage"]

_T = TypeVar("_T")
_NODE: TypeAdapter[AnyNode] = TypeAdapter(Node)


class Draft(NamedTuple):
    """
    The readable parts of a definition.

    `nodes` by position in the file; `ids` and `agent_names` are all that the file declares, so that
    a name of a broken part is still known; of servers a broken one is None.
    """

    settings: Settings
    nodes: dict[int, AnyNode]
    ids: frozenset[str]
    agents: dict[str, AgentDefinition]
    agent_names: frozenset[str]
    input_schema: dict[str, Any] | None
    mcp: dict[str, McpServerDefinition | None]

    def by_id(self) -> dict[str, AnyNode]:
        """The nodes by their ids; of two with one id, the first."""
        return {node.id: node for node in reversed(self.nodes.values())}

    def prompted(self) -> Iterator[tuple[Place, AgentDefinition]]:
        """Every agent, of nodes and of subagents, with its place."""
        for position, node in self.nodes.items():
            if isinstance(node, AgentNode):
                yield ("nodes", position), node
        for name, agent in self.agents.items():
            yield ("agents", name), agent


def output_outline(node: AnyNode | None) -> dict[str, Any]:
    """The schema of what a node gives to later ones, as far as it is known."""
    match node:
        case AgentNode():
            schema = DEFAULT_OUTPUT_SCHEMA if node.output_schema is None else node.output_schema
        case WaitNode(data_schema=dict(schema)):
            pass
        case _:
            return ANYTHING
    return schema if node.for_each is None else list_of(schema)


def draft_of(definition: WorkflowDefinition) -> Draft:
    """A whole definition as a draft."""
    return Draft(
        settings=definition.settings,
        nodes=dict(enumerate(definition.nodes)),
        ids=frozenset(node.id for node in definition.nodes),
        agents=definition.agents,
        agent_names=frozenset(definition.agents),
        input_schema=definition.input_schema,
        mcp=dict(definition.mcp),
    )


def salvage(data: Any) -> Draft:
    """The parts of a broken definition that can be read, each on its own."""
    data = data if isinstance(data, dict) else {}
    raw_nodes = data.get("nodes") if isinstance(data.get("nodes"), list) else []
    raw_agents = data.get("agents") if isinstance(data.get("agents"), dict) else {}
    raw_mcp = data.get("mcp") if isinstance(data.get("mcp"), dict) else {}
    schema = data.get("input_schema")
    return Draft(
        settings=_read(TypeAdapter(Settings), data.get("settings")) or Settings(),
        nodes={
            position: node
            for position, raw in enumerate(raw_nodes)
            if (node := _read(_NODE, raw)) is not None
        },
        ids=frozenset(
            raw["id"]
            for raw in raw_nodes
            if isinstance(raw, dict) and isinstance(raw.get("id"), str)
        ),
        agents={
            name: agent
            for name, raw in raw_agents.items()
            if (agent := _read(TypeAdapter(AgentDefinition), raw)) is not None
        },
        agent_names=frozenset(raw_agents),
        input_schema=schema if isinstance(schema, dict) else None,
        mcp={name: _read(TypeAdapter(McpServerDefinition), raw) for name, raw in raw_mcp.items()},
    )


def _read(adapter: TypeAdapter[_T], raw: Any) -> _T | None:
    try:
        return adapter.validate_python(raw)
    except ValidationError:
        return None
