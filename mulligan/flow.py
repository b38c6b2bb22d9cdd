"""
Workflows as they are handed in, compiled to the plan that a run keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mulligan.errors import InvalidInput
from mulligan.schemas.plan import Plan

if TYPE_CHECKING:
    from mulligan.schemas.load import Defines
    from mulligan.schemas.mcp_tools import Catalogue
    from mulligan.schemas.workflow import WorkflowDefinition

Flow: TypeAlias = "str | Plan | WorkflowDefinition | Defines"
"""A workflow: the name of a file, `module:attribute` or a shipped one; a `Workflow`; a plan."""


def compile_flow(
    workflow: Flow,
    *,
    model: str | None = None,
    default_model: str | None = None,
    changes: Callable[[str], Mapping[str, Any]] = lambda name: {},
) -> Plan:
    """
    The plan of a workflow as a run asked for now would keep it. `changes` gives what people have
    changed of its settings, `model` takes the place of the one in them, `default_model` that of one
    that is missing there; an agent that names its own keeps it.

    Raises:
        WorkflowInvalid: it can't be worked as it is; the message says why.
        InvalidInput: it is no workflow, or the model no name.
    """
    if isinstance(workflow, Plan):
        return workflow
    if not (model is None or isinstance(model, str)):
        raise InvalidInput(f"model {model!r} is no name")
    # Reading and checking workflows needs libraries that a reader of runs should not pay for.
    from mulligan.schemas.compile import compile_plan
    from mulligan.schemas.load import load_workflow
    from mulligan.schemas.workflow import WorkflowDefinition

    if isinstance(workflow, str):
        workflow = load_workflow(workflow)
    if not (isinstance(workflow, WorkflowDefinition) or hasattr(workflow, "definition")):
        raise InvalidInput(f"{type(workflow).__name__} is no workflow: name one, or build one")
    definition = workflow if isinstance(workflow, WorkflowDefinition) else workflow.definition()
    changed = changes(definition.name)
    if changed:
        definition = definition.with_settings(**changed)
    if model is not None:
        settings = definition.settings.model_copy(update={"model": model})
        definition = definition.model_copy(update={"settings": settings})
    return compile_plan(definition, default_model=default_model, catalogue=_catalogue(definition))


def _catalogue(definition: WorkflowDefinition) -> Catalogue | None:
    """What asks MCP servers for their tools; a workflow without any needs no library for it."""
    if not definition.mcp:
        return None
    from mulligan.tools.mcp.catalogue import ServerCatalogue

    return ServerCatalogue()
