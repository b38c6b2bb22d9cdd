"""An application: the workflows and tools that `mulligan worker myapp:app` carries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mulligan.errors import InvalidInput
from mulligan.schemas.code import import_code
from mulligan.schemas.load import Defines
from mulligan.schemas.problems import did_you_mean
from mulligan.schemas.tool_spec import ToolLike, ToolSpec
from mulligan.schemas.workflow import WorkflowDefinition

__all__ = ["App", "load_app"]


class App:
    """Workflows by name and tools by path. Holds them only; nothing is started or sent."""

    def __init__(self) -> None:
        self._workflows: dict[str, WorkflowDefinition] = {}
        self._tools: dict[str, ToolSpec] = {}

    def add(self, item: Defines | WorkflowDefinition | ToolLike) -> None:
        """
        Register a workflow (`Workflow` or its definition) or a tool.

        Raises WorkflowInvalid for a workflow with problems, InvalidInput for a name that another
        workflow has, and for what is neither.
        """
        if isinstance(item, ToolLike):
            spec = item.spec()
            self._tools[spec.path] = spec
        elif isinstance(item, WorkflowDefinition):
            self._add_workflow(item)
        elif isinstance(item, Defines):
            self._add_workflow(item.definition())
        else:
            kind = type(item).__name__
            raise InvalidInput(f"an App holds workflows and tools, not something of type {kind}")

    def workflow(self, name: str) -> WorkflowDefinition:
        """The workflow of that name. Raises InvalidInput if none is registered."""
        if name not in self._workflows:
            hint = did_you_mean(name, self._workflows)
            raise InvalidInput(f"no workflow {name!r} is registered{hint}; App.add registers one")
        return self._workflows[name]

    @property
    def workflows(self) -> Mapping[str, WorkflowDefinition]:
        """All workflows, by name; what `load_workflow` takes as `registered`."""
        return MappingProxyType(self._workflows)

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools that were registered on their own, by `module:attribute`."""
        return MappingProxyType(self._tools)

    def _add_workflow(self, definition: WorkflowDefinition) -> None:
        known = self._workflows.setdefault(definition.name, definition)
        if known != definition:
            raise InvalidInput(f"a workflow named {definition.name!r} is registered already")


def load_app(path: str) -> App:
    """
    The `App` that `module:attribute` names, its module looked for in the current folder too.

    Raises InvalidInput: there is none.
    """
    found = import_code(path, (".",))
    if not isinstance(found, App):
        raise InvalidInput(
            f"{path}: this is of the type {type(found).__name__}, not a mulligan.App; workflows "
            "and tools that are not in an App need none: `mulligan worker` imports them"
        )
    return found
