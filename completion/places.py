"""
Which parts of a schema speak of which parts of a value, as far as they are plain to see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mulligan.schemas.author_schema import resolved

MAX_PLACES = 20_000
"""Beyond these the rest of a value is not looked at."""

Path = tuple[str | int, ...]


class Spot(NamedTuple):
    """A part of a value, and one schema that speaks of it."""

    path: Path
    value: Any
    schema: Mapping[str, Any]


def places(value: Any, schema: Mapping[str, Any]) -> Iterator[Spot]:
    """Every part of the value with each schema on the way of properties, items, allOf and $ref."""
    stack: list[tuple[Path, Any, object, int]] = [((), value, schema, 0)]
    for _ in range(MAX_PLACES):
        if not stack:
            return
        path, part, node, hops = stack.pop()
        node = resolved(node, schema)
        if not isinstance(node, Mapping):
            continue
        yield Spot(path, part, node)
        if hops < 8:
            stack += [(path, part, other, hops + 1) for other in node.get("allOf", ())]
        if isinstance(part, dict):
            stack += [
                ((*path, key), member, other, 0)
                for key, member, other in _members(part, node)
            ]  # fmt: skip
        elif isinstance(part, list):
            stack += [((*path, at), item, _item(at, node), 0) for at, item in enumerate(part)]


def _members(part: dict[str, Any], node: Mapping[str, Any]) -> Iterator[tuple[str, Any, object]]:
    properties = node.get("properties", {})
    for key, member in part.items():
        yield key, member, properties.get(key, node.get("additionalProperties"))


def _item(at: int, node: Mapping[str, Any]) -> object:
    first = node.get("prefixItems", ())
    return first[at] if at < len(first) else node.get("items")


def replaced(value: Any, path: Path, part: Any) -> Any:
    """A copy of the value, along the path alone, with another part at its end."""
    if not path:
        return part
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], part)
    return copy


def without(value: Any, path: Path) -> Any:
    """A copy of the value without the member at the end of the path."""
    if len(path) > 1:
        return replaced(value, path[:1], without(value[path[0]], path[1:]))
    return {key: member for key, member in value.items() if key != path[0]}
