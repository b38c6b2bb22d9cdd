"""
The workflow definition: what a workflow file holds, and what workflows in Python compile to.

The models hold shapes only. Whether names lead somewhere, whether the graph has no cycle, and
whether tools and schemas can be used is checked in `mulligan.schemas.checks`.

Durations are seconds, or text with a unit: `1.5`, `"500ms"`, `"30s"`, `"10m"`, `"2h"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from mulligan.events.facts import EffectClass
from mulligan.schemas.plan import OutputModeSetting
from mulligan.schemas.tool_spec import Permission
from mulligan.schemas.web_rules import HOST_PATTERN, network

__all__ = [
    "OFFERED_NAME",
    "AgentDefinition",
    "AgentNode",
    "AnyNode",
    "FunctionNode",
    "FunctionRetry",
    "Limits",
    "McpServerDefinition",
    "McpToolOptions",
    "Node",
    "RepairNode",
    "RetryPolicy",
    "Settings",
    "WaitNode",
    "Web",
    "WorkflowDefinition",
    "duration_ms",
    "workflow_json_schema",
]


_ID = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME_OF_SERVER = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_CODE = rf"^{_NAME}(\.{_NAME})*:{_NAME}(\.{_NAME})*$"
_TOOL = rf"^({_CODE[1:-1]}|mcp:{_NAME_OF_SERVER}/[A-Za-z0-9_./-]{{1,128}})$"
OFFERED_NAME = r"^[A-Za-z0-9_-]{1,64}$"
"""What providers take as the name of a function."""
_VARIABLE = r"^[A-Z_][A-Z0-9_]*$"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_LONGEST_MS = 366 * 24 * 3_600_000


def duration_ms(value: object) -> int:
    """Milliseconds of a duration as files spell it. Raises ValueError where it is none."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        milliseconds = float(match[1]) * _UNIT_MS[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        milliseconds = value * 1_000.0
    else:
        milliseconds = 0.0
    if not 1 <= milliseconds <= _LONGEST_MS:
        raise PydanticCustomError(
            "duration", "a duration is seconds above 0, or text such as 500ms, 30s, 10m, 2h"
        )
    return round(milliseconds)


Id = Annotated[str, Field(pattern=_ID)]
Phase = Annotated[
    str,
    Field(pattern=_ID, description="What part of the work it is; progress is told by phases."),
]
Code = Annotated[str, Field(pattern=_CODE, description="module:attribute")]
ToolPath = Annotated[
    str, Field(pattern=_TOOL, description="module:attribute, or mcp:server/tool of a server in mcp")
]
Variable = Annotated[
    str, Field(pattern=_VARIABLE, description="the name of an environment variable, in capitals")
]
Duration = Annotated[
    int,
    BeforeValidator(duration_ms),
    PlainSerializer(lambda milliseconds: f"{milliseconds}ms"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": f"^{_DURATION.pattern}$"},
            ],
            "description": "Seconds, or text with a unit: 500ms, 30s, 10m, 2h.",
        }
    ),
]
Host = Annotated[
    str, Field(pattern=HOST_PATTERN, description="example.org, *.example.org, HOST:PORT, or *")
]
Network = Annotated[
    str, AfterValidator(network), Field(description="a network in CIDR form, such as 10.0.0.0/8")
]
Schema = dict[str, Any]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False
    )


class RetryPolicy(_Model):
    """How long to wait before an automatic retry: doubling from `backoff` up to `backoff_max`."""

    backoff: Duration = 500
    backoff_max: Duration = 30_000


class Web(_Model):
    """
    Where the browser of the workflow's agents may go. `allow` are hosts: `example.org`,
    `*.example.org` (what stands below it), `example.org:8443`, or `*`. `networks` are those beyond
    the public internet that these hosts may lead to: `127.0.0.0/8`, `10.0.0.0/8`.
    """

    allow: list[Host] = []
    networks: list[Network] = []


class Limits(_Model):
    """What the model can take, in tokens; unset where it is not known (REC-20)."""

    context_window: int | None = Field(None, gt=0)
    max_output_tokens: int | None = Field(None, gt=0)


def _publish_aliases(schema: JsonDict) -> None:
    """Both spellings of each setting that has two."""
    properties = schema["properties"]
    assert isinstance(properties, dict)
    for name, alias in _SPELLINGS.items():
        properties[name] = properties[alias]


LONGEST_OUTPUT_REPAIR_MS = 600_000
"""Of the quarter of an hour for which a candidate is kept, a third is left for it to begin."""

_SPELLINGS = {
    "output_repair_model": "outputRepairModel",
    "output_repair_strict": "outputRepairStrict",
    "output_repair_timeout": "outputRepairTimeout",
}


def _without_secrets(value: str | None) -> str | None:
    parts = urlsplit(value or "")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise PydanticCustomError(
            "secret_address",
            "an address alone, without user, password, query or fragment: it is kept in the "
            "log; the provider's key belongs into the environment of the workers",
        )
    return value


class Settings(_Model):
    """
    Settings of a workflow.

    `outputRepairModel` is the overseer's model, at the provider of the worker's; blank or absent,
    it is that of the worker's request (OVR-4). `outputRepairTimeout` is the overseer's time: its
    answer is not streamed, so that no sign of life tells a long one from one that never comes.
    `recovery_limit` is the number of extra attempts of an invocation (REC-1). `read_roots` are the
    folders whose files the tool `read` may read (READ-1); relative ones are beside the workflow's
    file.
    """

    model_config = ConfigDict(json_schema_extra=_publish_aliases)

    model: str | None = None
    output_repair_model: str | None = Field(None, alias="outputRepairModel")
    output_repair_strict: bool = Field(False, alias="outputRepairStrict")
    output_repair_timeout: Duration = Field(120_000, alias="outputRepairTimeout")
    recovery_limit: int = Field(2, ge=0)
    api_base: str | None = None
    retry: RetryPolicy = RetryPolicy()
    limits: Limits = Limits()
    deadline: Duration | None = None
    web: Web = Web()
    read_roots: list[Annotated[str, Field(min_length=1)]] = []

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: Any) -> Any:
        for name, alias in _SPELLINGS.items():
            if isinstance(data, Mapping) and name in data and alias in data:
                raise PydanticCustomError(
                    "two_spellings", f"{alias} and {name} are the same setting; keep one"
                )
        return data

    @field_validator("output_repair_timeout")
    @classmethod
    def _while_the_candidate_is_kept(cls, value: int) -> int:
        if value > LONGEST_OUTPUT_REPAIR_MS:
            raise PydanticCustomError(
                "duration", "at most 10m: what is to be repaired is kept for 15 minutes"
            )
        return value

    @field_validator("api_base")
    @classmethod
    def _address_alone(cls, value: str | None) -> str | None:
        return _without_secrets(value)

    @model_validator(mode="after")
    def _blank_is_absent(self) -> Settings:
        for name in ("model", "output_repair_model", "api_base"):
            value = getattr(self, name)
            if value is not None and not value.strip():
                object.__setattr__(self, name, None)
        return self


class McpToolOptions(_Model):
    """
    What a workflow says of a server's tool: its effect class, the name that models know it by, if
    not the server's, how long a call may take, and whether a person is asked before it.
    """

    effect: EffectClass = "write"
    name: str | None = Field(None, pattern=OFFERED_NAME)
    timeout: Duration | None = None
    permission: Permission = "allow"


class McpServerDefinition(_Model):
    """
    A server that supplies tools (TOOL-3), which agents name as `mcp:server/tool`. `command` starts
    one on the machine of each worker; `url` is one of HTTP.

    `env` names the variables that a started server is given, besides PATH, HOME and the like;
    `bearer` names the one that holds a token, and `headers` those that hold values of headers. All
    are read where the server is reached, and are in no log. `tools` gives the effect class of each
    tool, alone or with other options; a tool that is not named there is a `write`.
    """

    command: list[str] = []
    url: str | None = None
    env: list[Variable] = []
    bearer: Variable | None = None
    headers: dict[str, Variable] = {}
    tools: dict[str, EffectClass | McpToolOptions] = {}

    @model_validator(mode="after")
    def _one_way(self) -> McpServerDefinition:
        if (self.url is None) == (not self.command):
            raise PydanticCustomError("mcp_way", "a server has either a command or a url")
        if self.url is None and (self.bearer or self.headers):
            raise PydanticCustomError("mcp_way", "bearer and headers are for a url; use env")
        if self.url is not None and self.env:
            raise PydanticCustomError("mcp_way", "env is for a command; use bearer or headers")
        if self.command and not self.command[0]:
            raise PydanticCustomError("mcp_way", "a command begins with the name of a program")
        return self

    @field_validator("url")
    @classmethod
    def _address_alone(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "http://host")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PydanticCustomError(
                "mcp_address", "an address that begins with http:// or https://"
            )
        return _without_secrets(value)

    def options(self, tool: str) -> McpToolOptions:
        """What is said of a tool, or goes for those of which nothing is said."""
        found = self.tools.get(tool, McpToolOptions())
        return found if isinstance(found, McpToolOptions) else McpToolOptions(effect=found)


class AgentDefinition(_Model):
    """
    What an agent is told and offered. Under `agents:` it is one that other agents may call.

    A node's prompt is a template of the user's message; a called agent's prompt is its
    instructions, and its input is the user's message. With `allow_user_input` it may ask people.
    `ask_before` names those of its `tools` whose calls wait for a person's approval, besides those
    that demand it themselves: a workflow can ask for more of it than a tool does, not for less.

    `decompose` names a function that splits work for which not even the model's whole output was
    enough. It takes, as far as it names them, `prompt` (the user's message), `cause`, and in a node
    the outputs of earlier nodes, and returns a list of smaller messages; each is worked by the same
    agent. `join` makes the output of `parts`, the list of theirs, and of the same values.
    """

    prompt: str
    system: str | None = None
    tools: list[ToolPath] = []
    subagents: list[str] = []
    output_schema: Schema | None = None
    model: str | None = None
    mode: OutputModeSetting = "auto"
    recovery_limit: int | None = Field(None, ge=0)
    max_output_tokens: int | None = Field(None, gt=0)
    temperature: float | None = Field(None, ge=0)
    allow_user_input: bool = False
    ask_before: list[ToolPath] = []
    accept_missing_closers: bool = False
    decompose: Code | None = None
    join: Code | None = None
    timeout: Duration | None = None


class AgentNode(AgentDefinition):
    """A node that one agent works, or, with `for_each`, one invocation for each item."""

    id: Id
    kind: Literal["agent"]
    needs: list[str] = []
    when: str | None = None
    for_each: str | None = None
    phase: Phase | None = None


class FunctionRetry(_Model):
    """`attempts` in all, with waits that double from `backoff` up to `backoff_max`."""

    attempts: int = Field(ge=1, le=100)
    backoff: Duration = 1_000
    backoff_max: Duration = 60_000


class FunctionNode(_Model):
    """
    A node that calls a Python function.

    The function gets, by the names of its parameters, the outputs of earlier nodes, `input`, and
    with `for_each` `item` and `index`. Interrupted by a crash it is called again, unless its
    `effect` is `write`.
    """

    id: Id
    kind: Literal["function"]
    call: Code
    needs: list[str] = []
    when: str | None = None
    for_each: str | None = None
    phase: Phase | None = None
    retry: FunctionRetry | None = None
    timeout: Duration | None = None
    effect: EffectClass = "idempotent"


class RepairNode(_Model):
    """
    A node that judges a draft, and repairs it at rising cost until it passes or a bound is met.

    `draft` refers to the value to judge: `write` or `write.text`; `quality` to a report on it that
    was made elsewhere, and stands for the first judgement if it is there. `gates` names a function
    of the draft that gives a quality report, `rework` one that redoes it at a level, from 1
    (surgical edits) to 5 (from scratch). Both take, by the names of their parameters, `draft` and
    the outputs of earlier nodes; `rework` also `level`, `quality`, `repairs` and `stages`. `agents`
    are those that `rework` may set to work; `reviewer` is one that judges what has passed.
    `estimates_usd` are cumulative, by level.
    """

    id: Id
    kind: Literal["repair"]
    needs: list[str] = []
    when: str | None = None
    for_each: str | None = None
    phase: Phase | None = None
    draft: str
    quality: str | None = None
    gates: Code
    rework: Code
    agents: list[str] = []
    reviewer: str | None = None
    max_rounds: int = Field(4, ge=0, le=100)
    budget_usd: float = Field(2.5, ge=0)
    estimates_usd: list[Annotated[float, Field(ge=0)]] = Field(
        [0.1, 0.25, 0.5, 1.5, 2.5], min_length=5, max_length=5
    )
    start_rules: bool = False


class WaitNode(_Model):
    """
    A node that waits for a signal from outside, whose data are its output.

    Nodes that wait for the same `signal` take one each, the one that waits longest first, and name
    the same `schema`, which the data of a signal have to fit. With a `timeout`, a node that none
    came for ends with `default`, if there is one, and fails if not.
    """

    id: Id
    kind: Literal["wait"]
    signal: Id
    needs: list[str] = []
    when: str | None = None
    for_each: str | None = None
    phase: Phase | None = None
    data_schema: Schema | None = Field(None, alias="schema")
    timeout: Duration | None = None
    default: Any = None

    @property
    def has_default(self) -> bool:
        """Whether a default is given, be it null."""
        return "default" in self.model_fields_set

    @model_validator(mode="after")
    def _default_of_a_timeout(self) -> WaitNode:
        if self.has_default and self.timeout is None:
            raise PydanticCustomError("default", "default is for when the timeout is over: add one")
        return self


Node = Annotated[AgentNode | FunctionNode | RepairNode | WaitNode, Field(discriminator="kind")]
AnyNode = AgentNode | FunctionNode | RepairNode | WaitNode


class WorkflowDefinition(_Model):
    """A workflow: its nodes, the agents they may call, servers of tools, its settings."""

    name: Id
    version: int = Field(1, ge=1)
    settings: Settings = Settings()
    agents: dict[Id, AgentDefinition] = {}
    mcp: dict[Id, McpServerDefinition] = {}
    nodes: list[Node] = Field(min_length=1)
    input_schema: Schema | None = None

    _code_path: tuple[str, ...] = PrivateAttr(default=())

    @property
    def code_path(self) -> tuple[str, ...]:
        """Folders where its modules were found, besides Python's own path; not in the file."""
        return self._code_path

    def with_code_path(self, *folders: str) -> WorkflowDefinition:
        """The same definition, its modules to be looked for in `folders` too."""
        copy = self.model_copy()
        copy._code_path = tuple(dict.fromkeys(folders))
        return copy

    def with_settings(self, **settings: Any) -> WorkflowDefinition:
        """The same definition under other settings, as `--model` and the settings panel make."""
        merged = self.settings.model_dump() | settings
        copy = self.model_copy(update={"settings": Settings.model_validate(merged)})
        return copy.with_code_path(*self.code_path)


def workflow_json_schema() -> dict[str, Any]:
    """The JSON Schema of a workflow file, as published."""
    schema = WorkflowDefinition.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
