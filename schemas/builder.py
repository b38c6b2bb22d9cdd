"""
Workflows in Python: `Workflow` collects nodes and gives the same definition as the equal YAML.

    flow = Workflow("brief", model="openai/some-model")
    collect = flow.agent("collect", prompt="…", tools=[search], output=Items)
    part = flow.agent("part", needs=[collect], for_each="collect.items", prompt="… {item} …")
    flow.function("join", join, needs=[part])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack

from pydantic import BaseModel

from mulligan.errors import InvalidInput, WorkflowInvalid
from mulligan.events.facts import EffectClass
from mulligan.schemas.code import import_path_of
from mulligan.schemas.load import checked_definition
from mulligan.schemas.plan import OutputModeSetting
from mulligan.schemas.tool_spec import ToolLike
from mulligan.schemas.workflow import WorkflowDefinition

__all__ = [
    "AgentOptions",
    "McpHandle",
    "McpOptions",
    "NodeHandle",
    "SettingsOptions",
    "SubagentHandle",
    "WaitOptions",
    "Workflow",
]


class NodeHandle(NamedTuple):
    """A node of a workflow, to be named in the `needs` of others."""

    id: str


class SubagentHandle(NamedTuple):
    """A callable agent of a workflow, to be named in the `subagents` of others."""

    name: str


class McpHandle(NamedTuple):
    """A server of a workflow that supplies tools."""

    name: str

    def tool(self, tool: str) -> str:
        """The path of one of its tools."""
        return f"mcp:{self.name}/{tool}"


Shape: TypeAlias = type[BaseModel] | dict[str, Any]
"""A pydantic model class, or a JSON Schema."""
CodeLike: TypeAlias = Callable[..., Any] | ToolLike | str
"""A tool or function, or its `module:attribute`."""
DurationLike: TypeAlias = float | str
"""Seconds, or text with a unit: `500ms`, `30s`, `10m`, `2h`."""


class SettingsOptions(TypedDict, total=False):
    """The settings of a workflow, as in its file."""

    model: str
    output_repair_model: str
    output_repair_strict: bool
    output_repair_timeout: DurationLike
    recovery_limit: int
    api_base: str
    retry: dict[str, DurationLike]
    limits: dict[str, int]
    deadline: DurationLike
    web: dict[str, list[str]]
    read_roots: list[str]


class AgentOptions(TypedDict, total=False):
    """What an agent may be given beside its prompt, as in the file; `output` is its schema."""

    system: str
    tools: Sequence[CodeLike]
    subagents: Sequence[SubagentHandle | str]
    output: Shape
    model: str
    mode: OutputModeSetting
    recovery_limit: int
    max_output_tokens: int
    temperature: float
    allow_user_input: bool
    ask_before: Sequence[CodeLike]
    accept_missing_closers: bool
    decompose: CodeLike
    join: CodeLike
    timeout: DurationLike


class WaitOptions(TypedDict, total=False):
    """How long a node waits, and its output if no signal comes by then (else it fails)."""

    timeout: DurationLike
    default: Any


class McpOptions(TypedDict, total=False):
    """How a server of tools is reached, as in the file."""

    command: list[str]
    url: str
    env: list[str]
    bearer: str
    headers: dict[str, str]
    tools: dict[str, EffectClass | dict[str, Any]]


class Workflow:
    """
    A workflow under construction.

    Methods raise WorkflowInvalid at once for functions that workers could not import; everything
    else is checked, all together, by `definition`.
    """

    def __init__(
        self,
        name: str,
        *,
        version: int = 1,
        input: Shape | None = None,  # noqa: A002 - the name that workflows know it by
        **settings: Unpack[SettingsOptions],
    ) -> None:
        self.name = name
        self._data: dict[str, Any] = {"name": name, "version": version, "settings": settings}
        if input is not None:
            self._data["input_schema"] = _schema(input)
        self._nodes: list[dict[str, Any]] = []
        self._agents: dict[str, dict[str, Any]] = {}
        self._servers: dict[str, dict[str, Any]] = {}

    def agent(
        self,
        id: str,  # noqa: A002 - as in the file
        *,
        prompt: str,
        needs: Sequence[NodeHandle | str] = (),
        when: str | None = None,
        for_each: str | None = None,
        phase: str | None = None,
        **options: Unpack[AgentOptions],
    ) -> NodeHandle:
        """Add a node that an agent works; with `for_each`, one invocation for each item."""
        node = _graph(id, "agent", needs, when, for_each, phase)
        self._nodes.append(node | self._agent_data(id, prompt, options))
        return NodeHandle(id)

    def function(
        self,
        id: str,  # noqa: A002 - as in the file
        call: Callable[..., Any] | str,
        *,
        needs: Sequence[NodeHandle | str] = (),
        when: str | None = None,
        for_each: str | None = None,
        phase: str | None = None,
        retry: dict[str, float | str] | None = None,
        timeout: DurationLike | None = None,
        effect: EffectClass = "idempotent",
    ) -> NodeHandle:
        """Add a node that calls a function; a function cut off by a crash is called again."""
        node = _graph(id, "function", needs, when, for_each, phase)
        own = {"call": self._path(id, call), "retry": retry, "timeout": timeout, "effect": effect}
        self._nodes.append(node | own)
        return NodeHandle(id)

    def wait(
        self,
        id: str,  # noqa: A002 - as in the file
        signal: str,
        *,
        needs: Sequence[NodeHandle | str] = (),
        when: str | None = None,
        for_each: str | None = None,
        phase: str | None = None,
        schema: Shape | None = None,
        **late: Unpack[WaitOptions],
    ) -> NodeHandle:
        """Add a node that waits for a signal, whose data are its output."""
        node = _graph(id, "wait", needs, when, for_each, phase)
        own = {"signal": signal, "schema": _schema(schema) if schema is not None else None}
        self._nodes.append(node | own | late)
        return NodeHandle(id)

    def subagent(
        self, name: str, *, prompt: str, **options: Unpack[AgentOptions]
    ) -> SubagentHandle:
        """Add an agent that others may call. Raises WorkflowInvalid if the name is taken."""
        if name in self._agents:
            raise self._invalid(f"agents.{name}", "this name is given twice")
        self._agents[name] = self._agent_data(name, prompt, options)
        return SubagentHandle(name)

    def mcp(self, name: str, **options: Unpack[McpOptions]) -> McpHandle:
        """
        Add a server that supplies tools; `handle.tool("search")` is one of them, for an agent's
        `tools`. Raises WorkflowInvalid if the name is taken.
        """
        if name in self._servers:
            raise self._invalid(f"mcp.{name}", "this name is given twice")
        self._servers[name] = dict(options)
        return McpHandle(name)

    def definition(self) -> WorkflowDefinition:
        """The definition, checked. Raises WorkflowInvalid with every problem."""
        data = self._data | {"nodes": self._nodes, "agents": self._agents, "mcp": self._servers}
        return checked_definition(data, self._source, code_path=(str(Path.cwd()),))

    @property
    def _source(self) -> str:
        return f"workflow {self.name!r}"

    def _agent_data(self, name: str, prompt: str, options: AgentOptions) -> dict[str, Any]:
        data: dict[str, Any] = {"prompt": prompt, **options}
        if "output" in data:
            data["output_schema"] = _schema(data.pop("output"))
        for key in data.keys() & {"tools", "ask_before"}:
            data[key] = [self._path(name, tool) for tool in data[key]]
        if "subagents" in data:
            data["subagents"] = [_name(agent) for agent in data["subagents"]]
        for function in ("decompose", "join"):
            if function in data:
                data[function] = self._path(name, data[function])
        return data

    def _path(self, place: str, code: CodeLike) -> str:
        if isinstance(code, str):
            return code
        try:
            return code.spec().path if isinstance(code, ToolLike) else import_path_of(code)
        except InvalidInput as error:
            raise self._invalid(place, str(error)) from error

    def _invalid(self, place: str, message: str) -> WorkflowInvalid:
        return WorkflowInvalid(self._source, [f"{self._source}: {place}: {message}"])


def _graph(
    node_id: str,
    kind: str,
    needs: Sequence[NodeHandle | str],
    when: str | None,
    for_each: str | None,
    phase: str | None,
) -> dict[str, Any]:
    named = [_name(need) for need in needs]
    place = {"needs": named, "when": when, "for_each": for_each, "phase": phase}
    return {"id": node_id, "kind": kind, **place}


def _name(handle: NodeHandle | SubagentHandle | str) -> str:
    return handle if isinstance(handle, str) else handle[0]


def _schema(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, dict):
        return shape
    if not isinstance(shape, type) or not issubclass(shape, BaseModel):
        raise InvalidInput(f"a shape is a pydantic model or a JSON Schema (a dict), not {shape!r}")
    return shape.model_json_schema()
