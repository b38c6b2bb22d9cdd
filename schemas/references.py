"""
References to values of a run: `collect.items`, `input.topic`, `part[0].title`.

A reference is a name (a node's id, `input`, `item` or `index`) and steps into its value. Prompts
use them in braces, `for_each` uses one alone; conditions have a language of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mulligan.errors import ExpressionFailed

__all__ = ["NAME", "REFERENCE", "Reference", "parse_reference", "resolve", "resolve_items"]

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
REFERENCE = rf"{NAME}(?:\.{NAME}|\[\d{{1,9}}\])*"
_WHOLE = re.compile(REFERENCE)
_STEP = re.compile(rf"\.(?P<key>{NAME})|\[(?P<position>\d+)\]")


class Reference(NamedTuple):
    """A name and the steps into its value: keys of objects, positions in lists (from 0)."""

    name: str
    steps: tuple[str | int, ...]
    text: str


def parse_reference(text: str) -> Reference | None:
    """The reference that `text` spells, or None if it is not one."""
    if not _WHOLE.fullmatch(text):
        return None
    name = re.match(NAME, text)
    assert name is not None
    steps = tuple(
        match["key"] if match["position"] is None else int(match["position"])
        for match in _STEP.finditer(text, name.end())
    )
    return Reference(name.group(), steps, text)


def resolve(reference: Reference, values: Mapping[str, Any]) -> Any:
    """
    The value that `reference` names among `values` (by name: outputs, `input`, `item`, `index`).

    A step into null gives null: the output of a skipped node is null, and so is all below it.

    Raises ExpressionFailed where the name, a key or a position is not there.
    """
    if reference.name not in values:
        raise ExpressionFailed(reference.text, f"there is no {reference.name!r} here")
    value = values[reference.name]
    for step in reference.steps:
        value = _step(reference, value, step)
    return value


def _step(reference: Reference, value: Any, step: str | int) -> Any:
    match value, step:
        case None, _:
            return None
        case dict(), str() if step in value:
            return value[step]
        case list(), int() if step < len(value):
            return value[step]
    kind = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else ""
    raise ExpressionFailed(
        reference.text, f"{step!r} is not in {kind}" if kind else f"{step!r} of a plain value"
    )


def resolve_items(text: str, values: Mapping[str, Any]) -> list[Any]:
    """
    The list that a node's `for_each` names; null (of a skipped node) is an empty one.

    Raises ExpressionFailed where the value is not there or is not a list.
    """
    reference = parse_reference(text)
    if reference is None:
        raise ExpressionFailed(text, "this is not a reference such as collect.items")
    items = resolve(reference, values)
    if items is None:
        return []
    if not isinstance(items, list):
        raise ExpressionFailed(text, "for_each needs a list here")
    return items
