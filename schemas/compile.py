"""Compiling a definition to the plan that a run keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from mulligan.errors import InvalidInput, WorkflowInvalid
from mulligan.schemas.author_schema import DEFAULT_OUTPUT_SCHEMA
from mulligan.schemas.call_names import (
    DECOMPOSE_NAMES,
    GATES_NAMES,
    JOIN_NAMES,
    REWORK_NAMES,
    names_taken,
)
from mulligan.schemas.checks import definition_problems
from mulligan.schemas.code import code_digest
from mulligan.schemas.code_table import CodeTable
from mulligan.schemas.draft import Draft, draft_of
from mulligan.schemas.graph import topological_order
from mulligan.schemas.mcp_tools import Catalogue
from mulligan.schemas.plan import (
    AgentPlan,
    CodeRef,
    FunctionPlan,
    NodePlan,
    Plan,
    PluginPlan,
    RepairPlan,
    SettingsPlan,
    ToolSpec,
    WaitPlan,
    Work,
    plan_digest,
)
from mulligan.schemas.problems import describe
from mulligan.schemas.scope import offered_names
from mulligan.schemas.web_rules import WebRules
from mulligan.schemas.workflow import (
    AgentDefinition,
    AgentNode,
    AnyNode,
    FunctionNode,
    FunctionRetry,
    RepairNode,
    Settings,
    WaitNode,
    WorkflowDefinition,
)

__all__ = ["compile_plan"]


def compile_plan(
    definition: WorkflowDefinition,
    *,
    default_model: str | None = None,
    catalogue: Catalogue | None = None,
) -> Plan:
    """
    Compile a definition; `default_model` is taken where the workflow's settings name none, and
    `catalogue` asks MCP servers for their tools, whose schemas the plan keeps.

    Modules that the definition names are imported, to check and describe tools and functions.

    Raises WorkflowInvalid with every problem, if there is any.
    """
    draft = draft_of(definition)
    code = CodeTable(definition.code_path, draft.mcp, catalogue)
    problems = list(definition_problems(draft, code))
    if problems:
        source = f"workflow {definition.name!r}"
        raise WorkflowInvalid(source, [describe(source, problem) for problem in problems])
    plan = _Compiler(definition, draft, code, default_model).plan()
    return msgspec.structs.replace(plan, digest=plan_digest(plan))


class _Compiler:
    """Compiles one checked definition."""

    def __init__(
        self,
        definition: WorkflowDefinition,
        draft: Draft,
        code: CodeTable,
        default_model: str | None,
    ) -> None:
        self._definition = definition
        self._draft = draft
        self._code = code
        self._settings = _settings(definition.settings, default_model)

    def plan(self) -> Plan:
        definition = self._definition
        nodes = {node.id: node for node in definition.nodes}
        order = topological_order({node.id: node.needs for node in definition.nodes})
        agents = [node for node in definition.nodes if isinstance(node, AgentNode)]
        return Plan(
            name=definition.name,
            version=definition.version,
            settings=self._settings,
            nodes=tuple(self._node(nodes[node_id]) for node_id in order),
            agents={name: self._agent(agent) for name, agent in definition.agents.items()},
            tools=self._tools([*agents, *definition.agents.values()]),
            input_schema=definition.input_schema,
            code_path=definition.code_path,
        )

    def _node(self, node: AnyNode) -> NodePlan:
        return NodePlan(
            id=node.id,
            needs=tuple(node.needs),
            when=node.when,
            for_each=node.for_each,
            phase=node.phase,
            work=self._work(node),
        )

    def _work(self, node: AnyNode) -> Work:
        match node:
            case AgentNode():
                return self._agent(node)
            case FunctionNode():
                return self._function(node)
            case RepairNode():
                return self._repair(node)
            case WaitNode():
                return _wait(node)
            case _:
                assert_never(node)

    def _agent(self, agent: AgentDefinition) -> AgentPlan:
        limit, schema = agent.recovery_limit, agent.output_schema
        offered = offered_names(agent, self._draft) if isinstance(agent, AgentNode) else ()
        return AgentPlan(
            prompt=agent.prompt,
            system=agent.system,
            model=agent.model or self._settings.model,
            mode=agent.mode,
            tools=tuple(agent.tools),
            subagents=tuple(agent.subagents),
            output_schema=DEFAULT_OUTPUT_SCHEMA if schema is None else schema,
            recovery_limit=self._settings.recovery_limit if limit is None else limit,
            max_output_tokens=agent.max_output_tokens,
            temperature=agent.temperature,
            allow_user_input=agent.allow_user_input,
            ask_before=tuple(agent.ask_before),
            accept_missing_closers=agent.accept_missing_closers,
            decompose=self._plugin(agent.decompose, (*DECOMPOSE_NAMES, *offered))
            if agent.decompose
            else None,
            join=self._plugin(agent.join, (*JOIN_NAMES, *offered)) if agent.join else None,
            timeout_ms=agent.timeout,
        )

    def _function(self, node: FunctionNode) -> FunctionPlan:
        retry = node.retry or FunctionRetry(attempts=1)
        function = self._code.function(node.call)
        return FunctionPlan(
            call=self._ref(node.call),
            arguments=names_taken(function, offered_names(node, self._draft)),
            effect=node.effect,
            attempts=retry.attempts,
            backoff_ms=retry.backoff,
            backoff_max_ms=retry.backoff_max,
            timeout_ms=node.timeout,
        )

    def _repair(self, node: RepairNode) -> RepairPlan:
        offered = offered_names(node, self._draft)
        return RepairPlan(
            draft=node.draft,
            quality=node.quality,
            gates=self._plugin(node.gates, (*GATES_NAMES, *offered)),
            rework=self._plugin(node.rework, (*REWORK_NAMES, *offered)),
            agents=tuple(node.agents),
            reviewer=node.reviewer,
            max_rounds=node.max_rounds,
            budget_usd=node.budget_usd,
            estimates_usd=tuple(node.estimates_usd),
            start_rules=node.start_rules,
        )

    def _plugin(self, path: str, offered: tuple[str, ...]) -> PluginPlan:
        taken = names_taken(self._code.function(path), dict.fromkeys(offered))
        return PluginPlan(call=self._ref(path), arguments=taken)

    def _ref(self, path: str) -> CodeRef:
        return CodeRef(path=path, digest=code_digest(self._code.function(path)))

    def _tools(self, agents: Iterable[AgentDefinition]) -> dict[str, ToolSpec]:
        paths = sorted({path for agent in agents for path in agent.tools})
        return {path: self._frozen(path) for path in paths}

    def _frozen(self, path: str) -> ToolSpec:
        spec = self._code.tool(path)
        if spec.mcp is not None and not spec.digest:
            raise InvalidInput(f"{path}: this way to compile a workflow can't ask MCP servers")
        return spec


def _wait(node: WaitNode) -> WaitPlan:
    return WaitPlan(
        signal=node.signal,
        schema=node.data_schema,
        timeout_ms=node.timeout,
        default=node.default if node.has_default else msgspec.UNSET,
    )


def _settings(settings: Settings, default_model: str | None) -> SettingsPlan:
    return SettingsPlan(
        model=settings.model or default_model,
        api_base=settings.api_base,
        output_repair_model=settings.output_repair_model,
        output_repair_strict=settings.output_repair_strict,
        output_repair_timeout_ms=settings.output_repair_timeout,
        recovery_limit=settings.recovery_limit,
        backoff_ms=settings.retry.backoff,
        backoff_max_ms=settings.retry.backoff_max,
        context_window=settings.limits.context_window,
        max_output_tokens=settings.limits.max_output_tokens,
        deadline_ms=settings.deadline,
        read_roots=tuple(settings.read_roots),
        web=WebRules(allow=tuple(settings.web.allow), networks=tuple(settings.web.networks)),
    )
