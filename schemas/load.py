"""Loading a workflow: from a file, from `module:attribute`, or by the name of one that ships."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from mulligan.errors import InvalidInput, WorkflowInvalid
from mulligan.schemas.checks import definition_problems
from mulligan.schemas.code import import_code
from mulligan.schemas.code_table import CodeTable
from mulligan.schemas.draft import draft_of, salvage
from mulligan.schemas.problems import Problem, describe, did_you_mean
from mulligan.schemas.shape_problems import shape_problems
from mulligan.schemas.workflow import WorkflowDefinition
from mulligan.schemas.yaml_source import MAX_BYTES, read_document

__all__ = ["Defines", "checked_definition", "is_file", "load_workflow", "shipped_workflows"]

_SUFFIXES = (".yaml", ".yml", ".json")


@runtime_checkable
class Defines(Protocol):
    """Anything that gives a workflow definition, as a `Workflow` in Python does."""

    def definition(self) -> WorkflowDefinition:
        """The definition. Raises WorkflowInvalid."""
        ...


def load_workflow(
    source: str, registered: Mapping[str, WorkflowDefinition] | None = None
) -> WorkflowDefinition:
    """
    The workflow that `source` names, read and checked in full.

    A file (`brief.yaml`, or any path), `module:attribute` (a `Workflow`), or the name of a
    workflow that is `registered` or ships with mulligan. Modules that the workflow names are
    imported, from its own folder and the current one too; nothing in them is called.

    Raises WorkflowInvalid with all problems, each a line `brief.yaml:7: nodes[1].needs: …`.
    """
    if is_file(source):
        return _load_file(Path(source), source)
    if ":" in source:
        return _load_attribute(source)
    named = registered or {}
    if source in named:
        return named[source]
    shipped = shipped_workflows()
    if source in shipped:
        return _load_file(shipped[source], source)
    hint = did_you_mean(source, [*named, *shipped])
    raise _invalid(source, f"no workflow of that name{hint}; a file is named with its .yaml")


def is_file(source: str) -> bool:
    """Whether `source` names a file: what it holds may not be where a worker is."""
    return source.endswith(_SUFFIXES) or os.sep in source


def shipped_workflows() -> dict[str, Path]:
    """The files of the workflows that ship with mulligan, by name."""
    spec = find_spec("mulligan.workflows")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or [] for file in Path(folder).glob("*/workflow.yaml")]
    return {file.parent.name: file for file in sorted(files)}


def checked_definition(
    data: Any,
    source: str,
    *,
    code_path: tuple[str, ...],
    line: Callable[[Problem], int] | None = None,
    known: list[Problem] | None = None,
) -> WorkflowDefinition:
    """
    The definition that plain values hold. `line` finds the line of a problem in the source;
    `known` are problems that reading the source had already.

    Raises WorkflowInvalid with all of them and all that the checks find.
    """
    problems = list(known or [])
    definition: WorkflowDefinition | None = None
    try:
        definition = WorkflowDefinition.model_validate(data)
    except ValidationError as error:
        problems += shape_problems(error)
    draft = draft_of(definition) if definition else salvage(data)
    problems += definition_problems(draft, CodeTable(code_path, draft.mcp))
    if problems or definition is None:
        located = [(line(problem) if line else None, problem) for problem in problems]
        located.sort(key=lambda pair: pair[0] or 0)
        raise WorkflowInvalid(source, [describe(source, problem, at) for at, problem in located])
    return definition.with_code_path(*code_path)


def _load_file(path: Path, source: str) -> WorkflowDefinition:
    document = read_document(_read(path, source))
    if document.value is None:
        problems = document.problems or [Problem((), "the file is empty", line=1)]
        raise WorkflowInvalid(source, [describe(source, p, document.line(p)) for p in problems])
    return checked_definition(
        document.value,
        source,
        code_path=(str(path.resolve().parent), str(Path.cwd())),
        line=document.line,
        known=document.problems,
    )


def _read(path: Path, source: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        hint = did_you_mean(path.name, _neighbours(path))
        raise _invalid(source, f"no such file{hint}") from error
    except OSError as error:
        raise _invalid(source, f"the file can't be read: {error.strerror}") from error


def _neighbours(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir() if entry.suffix in _SUFFIXES]
    except OSError:
        return []


def _load_attribute(source: str) -> WorkflowDefinition:
    try:
        found = import_code(source, (str(Path.cwd()),))
    except InvalidInput as error:
        raise _invalid(source, str(error)) from error
    if isinstance(found, WorkflowDefinition):
        return found
    if isinstance(found, type) or not isinstance(found, Defines):
        kind = type(found).__name__
        raise _invalid(source, f"this is of the type {kind}, not a mulligan.Workflow")
    return found.definition()


def _invalid(source: str, message: str) -> WorkflowInvalid:
    return WorkflowInvalid(source, [f"{source}: {message}"])
