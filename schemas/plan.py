"""
The plan: a workflow compiled to what a worker needs, as it is stored in `RunRequested`.

A run keeps the plan it began with, on workers that have never seen its file. The digest tells plans
apart; where the code lies on disk (`code_path`) is no part of it, what the code says (the digests
of functions and tools) is.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from mulligan.events.facts import EffectClass
from mulligan.events.payload import canonical, digest_of
from mulligan.schemas.tool_spec import DEFAULT_TOOL_TIMEOUT_MS, ToolSpec
from mulligan.schemas.web_rules import WebRules

__all__ = [
    "DEFAULT_TOOL_TIMEOUT_MS",
    "AgentPlan",
    "CodeRef",
    "FunctionPlan",
    "NodePlan",
    "OutputModeSetting",
    "Plan",
    "PluginPlan",
    "RepairPlan",
    "SettingsPlan",
    "ToolSpec",
    "WaitPlan",
    "decode_plan",
    "encode_plan",
    "plan_digest",
    "plan_from_dict",
    "plan_to_dict",
]

OutputModeSetting = Literal["auto", "native", "tool", "prompt"]
"""`auto` picks the strongest mode that can express the schema exactly (REC-24)."""


class CodeRef(msgspec.Struct, frozen=True, kw_only=True):
    """A function by `module:attribute`, and the digest of its source."""

    path: str
    digest: str


class PluginPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A workload's function, and the names of the workflow's values that it is given."""

    call: CodeRef
    arguments: tuple[str, ...]


class AgentPlan(msgspec.Struct, frozen=True, kw_only=True, tag="agent", tag_field="kind"):
    """
    An agent, of a node or callable by name; what its settings leave open is resolved.

    `tools` are paths, keys of `Plan.tools`, and `ask_before` those of them whose calls wait for
    approval, besides the tools that demand it themselves; `model` is None where neither the
    workflow nor the caller named one. `decompose` splits what is too much for
    one response, and `join` puts the parts' outputs together (REC-19).
    """

    prompt: str
    output_schema: dict[str, Any]
    recovery_limit: int
    system: str | None = None
    tools: tuple[str, ...] = ()
    subagents: tuple[str, ...] = ()
    model: str | None = None
    mode: OutputModeSetting = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    allow_user_input: bool = False
    ask_before: tuple[str, ...] = ()
    accept_missing_closers: bool = False
    decompose: PluginPlan | None = None
    join: PluginPlan | None = None
    timeout_ms: int | None = None


class FunctionPlan(msgspec.Struct, frozen=True, kw_only=True, tag="function", tag_field="kind"):
    """
    A function node's call: `attempts` in all, with waits doubling up to `backoff_max_ms`.

    `arguments` are the parameters that the function is given: ids of earlier nodes (`-` written
    `_`), `input`, `item`, `index`, `idempotency_key`, `run_context` and `answers`, as far as it
    takes them.
    """

    call: CodeRef
    arguments: tuple[str, ...]
    effect: EffectClass
    attempts: int
    backoff_ms: int
    backoff_max_ms: int
    timeout_ms: int | None = None


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True, tag="repair", tag_field="kind"):
    """
    A repair loop: `draft` refers to what is to be judged by `gates` and redone by `rework`, with
    the help of `agents` (names of `Plan.agents`), in at most `max_rounds`. `quality` refers to a
    report on it that was made elsewhere, or to null.

    `estimates_usd` are what a loop may cost that goes up to each of the five levels, in dollars.
    """

    draft: str
    gates: PluginPlan
    rework: PluginPlan
    quality: str | None = None
    agents: tuple[str, ...] = ()
    reviewer: str | None = None
    max_rounds: int = 4
    budget_usd: float = 2.5
    estimates_usd: tuple[float, ...] = (0.1, 0.25, 0.5, 1.5, 2.5)
    start_rules: bool = False


class WaitPlan(msgspec.Struct, frozen=True, kw_only=True, tag="wait", tag_field="kind"):
    """
    A wait for a signal whose data fit `schema`, for `timeout_ms` at most. `default` is the output
    if none comes by then; UNSET: then the node fails.
    """

    signal: str
    schema: dict[str, Any] | None = None
    timeout_ms: int | None = None
    default: Any = msgspec.UNSET


Work = AgentPlan | FunctionPlan | RepairPlan | WaitPlan


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A node: its place in the graph, its work, and the `phase` that people know it by."""

    id: str
    work: Work
    needs: tuple[str, ...] = ()
    when: str | None = None
    for_each: str | None = None
    phase: str | None = None


class SettingsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run, resolved. Tokens and milliseconds; None is not known or not set."""

    recovery_limit: int
    output_repair_strict: bool
    backoff_ms: int
    backoff_max_ms: int
    model: str | None = None
    output_repair_model: str | None = None
    output_repair_timeout_ms: int = 120_000
    api_base: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    deadline_ms: int | None = None
    web: WebRules = WebRules()
    read_roots: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A compiled workflow. `nodes` come after all that they need; `digest` is SHA-256 in hex."""

    name: str
    version: int
    settings: SettingsPlan
    nodes: tuple[NodePlan, ...]
    agents: dict[str, AgentPlan]
    tools: dict[str, ToolSpec]
    input_schema: dict[str, Any] | None = None
    code_path: tuple[str, ...] = ()
    digest: str = ""

    def node(self, node_id: str) -> NodePlan:
        """The node with this id. Raises KeyError if the plan has none."""
        return self._by_id[node_id]

    def position(self, node_id: str) -> int:
        """The node's place in `nodes`, from 0. Raises KeyError if the plan has none."""
        return self._positions[node_id]

    def needed_by(self, node_id: str) -> tuple[str, ...]:
        """The nodes that need this one, in order."""
        return self._needed_by.get(node_id, ())

    @property
    def read_roots(self) -> tuple[str, ...]:
        """
        The folders whose files its tools may read. In the settings relative ones stay as they were
        written, beside the workflow's file, so that its plan is the same wherever it lies.
        """
        beside = self.code_path[0] if self.code_path else "/"
        return tuple(str(PurePath(beside, root)) for root in self.settings.read_roots)

    @cached_property
    def _by_id(self) -> dict[str, NodePlan]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {node.id: position for position, node in enumerate(self.nodes)}

    @cached_property
    def _needed_by(self) -> dict[str, tuple[str, ...]]:
        needed_by: dict[str, list[str]] = {}
        for node in self.nodes:
            for need in dict.fromkeys(node.needs):
                needed_by.setdefault(need, []).append(node.id)
        return {need: tuple(nodes) for need, nodes in needed_by.items()}


def plan_digest(plan: Plan) -> str:
    """SHA-256 of the plan's canonical JSON, without `code_path` and `digest`."""
    return digest_of(canonical(msgspec.structs.replace(plan, code_path=(), digest="")))


def encode_plan(plan: Plan) -> bytes:
    """The plan as JSON, the same bytes for the same plan."""
    return canonical(plan)


def decode_plan(data: bytes) -> Plan:
    """The plan that `encode_plan` wrote. Raises msgspec.ValidationError for anything else."""
    return msgspec.json.decode(data, type=Plan)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, as `RunRequested` holds it."""
    plain: dict[str, Any] = msgspec.json.decode(encode_plan(plan))
    return plain


def plan_from_dict(plain: dict[str, Any]) -> Plan:
    """The plan in a `RunRequested`. Raises msgspec.ValidationError for anything else."""
    return msgspec.convert(plain, Plan)
