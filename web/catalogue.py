"""
The workflows that may be asked for over HTTP: those that ship, and those that the server was told.

Files and code are named by whoever starts the server, never by a request: reading a workflow
imports what it names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from mulligan.app import App
from mulligan.errors import InvalidInput, WorkflowUnknown
from mulligan.schemas.load import load_workflow, shipped_workflows
from mulligan.schemas.workflow import WorkflowDefinition


class Offered(msgspec.Struct, kw_only=True):
    """A workflow that may be asked for; its input has to fit `input_schema`, if there is one."""

    name: str
    version: int
    nodes: list[str]
    input_schema: dict[str, Any] | None


class WorkflowList(msgspec.Struct, kw_only=True):
    """The workflows that may be asked for, by name."""

    kind: Literal["workflows"] = "workflows"
    workflows: list[Offered]


class Catalogue:
    """
    Args:
        app: its workflows are offered.
        sources: further ones, each a file, `module:attribute` or a shipped name.

    Raises:
        WorkflowInvalid: one of them can't be used.
        InvalidInput: two have the same name.
    """

    def __init__(self, app: App | None = None, sources: Iterable[str] = ()) -> None:
        self._registered = dict(app.workflows) if app is not None else {}
        for source in sources:
            definition = load_workflow(source)
            known = self._registered.setdefault(definition.name, definition)
            if known != definition:
                raise InvalidInput(
                    f"{source}: a workflow named {definition.name!r} is there already"
                )
        self._shipped: dict[str, WorkflowDefinition] = {}

    @property
    def names(self) -> list[str]:
        """The names of all that are offered."""
        return sorted({*self._registered, *shipped_workflows()})

    def definition(self, name: str) -> WorkflowDefinition:
        """
        The workflow of that name.

        Raises:
            WorkflowUnknown: it is not offered.
        """
        if name in self._registered:
            return self._registered[name]
        if name not in self._shipped:
            if name not in shipped_workflows():
                raise WorkflowUnknown(name, self.names)
            self._shipped[name] = load_workflow(name)
        return self._shipped[name]

    def list(self) -> WorkflowList:
        """All that are offered."""
        return WorkflowList(workflows=[_offered(self.definition(name)) for name in self.names])


def _offered(definition: WorkflowDefinition) -> Offered:
    return Offered(
        name=definition.name,
        version=definition.version,
        nodes=[node.id for node in definition.nodes],
        input_schema=definition.input_schema,
    )
