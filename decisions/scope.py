"""
The values that a node's expressions, prompts and functions can name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mulligan.events.ids import template_of
from mulligan.events.payload import Payload
from mulligan.projections.state import RunState
from mulligan.schemas.conditions import evaluate, python_name, references_of
from mulligan.schemas.references import resolve_items
from mulligan.schemas.templates import placeholders, render

ValueOf = Callable[[Payload], Any]


def values(state: RunState, node: str, names: Iterable[str], value_of: ValueOf) -> dict[str, Any]:
    """
    The named values as the node sees them: outputs of earlier nodes (a `-` may be written `_`),
    `input`, and in an instance `item` and `index`. Skipped nodes have null; unknown names are left
    out.
    """
    return {
        name: value
        for name in names
        for found, value in [_lookup(state, node, name, value_of)]
        if found
    }


def holds(state: RunState, node: str, value_of: ValueOf) -> bool:
    """Whether the node's `when:` is true, or absent."""
    condition = state.plan_of(node).when
    if condition is None:
        return True
    names = {reference.name for reference in references_of(condition)}
    return evaluate(condition, values(state, node, names, value_of))


def items(state: RunState, node: str, value_of: ValueOf) -> list[Any]:
    """The list that the node's `for_each` names."""
    path = state.plan_of(node).for_each or ""
    name = path.partition(".")[0].partition("[")[0]
    return resolve_items(path, values(state, node, [name], value_of))


def prompt(state: RunState, node: str, template: str, value_of: ValueOf) -> str:
    """A prompt with its placeholders filled in."""
    names = {placeholder.reference.name for placeholder in placeholders(template)}
    return render(template, values(state, node, names, value_of))


def _lookup(state: RunState, node: str, name: str, value_of: ValueOf) -> tuple[bool, Any]:
    if name == "input":
        return True, value_of(state.input) if state.input is not None else None
    index = state.nodes[node].index if node in state.nodes else None
    if name == "index" and index is not None:
        return True, index
    if name == "item" and index is not None:
        return True, items(state, template_of(node), value_of)[index]
    for other in state.plan.nodes if state.plan else ():
        if name in (other.id, python_name(other.id)):
            output = state.nodes[other.id].output
            return True, value_of(output) if output is not None else None
    return False, None
