"""
Which parts of a schema speak of a part of a value, as far as they are plain to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mulligan.schemas.author_schema import resolved

Path = tuple[str | int, ...]


def parts(value: Any, wanted: Callable[[Any], bool]) -> Iterator[tuple[Path, Any]]:
    """The scalars of a value that are wanted, with their paths."""
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, part = stack.pop()
        kind = type(part)
        if kind is dict:
            stack += [((*path, key), member) for key, member in part.items()]
        elif kind is list:
            stack += [((*path, at), item) for at, item in enumerate(part)]
        elif wanted(part):
            yield path, part


def schemas_at(path: Path, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schemas on the way of properties, items, allOf and $ref that speak of a path."""
    nodes = _expanded([root], root)
    for step in path:
        nodes = _expanded([_below(node, step) for node in nodes], root)
    return nodes


def _expanded(nodes: list[object], root: object) -> list[Mapping[str, Any]]:
    """The schemas that these are, refer to and combine."""
    found: list[Mapping[str, Any]] = []
    queue = list(nodes)
    while queue and len(found) < 64:
        node = resolved(queue.pop(), root)
        if isinstance(node, Mapping):
            found.append(node)
            queue += node.get("allOf", ())
    return found


def _below(node: Mapping[str, Any], step: str | int) -> object:
    if isinstance(step, str):
        return node.get("properties", {}).get(step, node.get("additionalProperties"))
    first = node.get("prefixItems", ())
    return first[step] if step < len(first) else node.get("items")


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
