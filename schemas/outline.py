"""
What an author's JSON Schema says about a value's parts, for checking references to them.

Only what the schema says plainly is used: declared properties, items, local `$ref`s. Where it says
anything more (`anyOf`, open objects, patterns, no type at all) nothing is claimed.
"""

from __future__ import annotations

from typing import Any

from mulligan.schemas.problems import did_you_mean

__all__ = ["ANYTHING", "list_of", "part", "plain_type"]

ANYTHING: dict[str, Any] = {}
"""The schema of a value of which nothing is known."""

_COMPOUND = {"anyOf", "oneOf", "allOf", "not", "if", "$dynamicRef"}
MAX_HOPS = 50
"""`$ref`s that are followed at one place; a chain of more is a circle."""


def list_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a list of such values, as a node with `for_each` gives."""
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "array", "items": schema} | definitions


def part(schema: Any, step: str | int, root: dict[str, Any]) -> tuple[Any, str | None]:
    """
    The schema of the part that `step` leads to, and None; or what stands against it, as a
    predicate: `has no 'titel' in its schema`.

    `root` is the whole schema that local references (`#/…`) are looked up in.
    """
    schema = _target(schema, root)
    kind = plain_type(schema, root)
    if kind is None:
        return ANYTHING, None
    if isinstance(step, int):
        if kind != "array":
            return ANYTHING, f"is of the type {kind} and has no item [{step}]"
        return schema.get("items", ANYTHING), None
    if kind != "object":
        return ANYTHING, f"is of the type {kind} and has no {step!r}"
    return _property(schema, step)


def _property(schema: dict[str, Any], name: str) -> tuple[Any, str | None]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or "patternProperties" in schema:
        return ANYTHING, None
    if name in properties:
        return properties[name], None
    if schema.get("additionalProperties", False) is not False:
        return ANYTHING, None
    return ANYTHING, f"has no {name!r} in its schema{did_you_mean(name, properties)}"


def plain_type(schema: Any, root: dict[str, Any]) -> str | None:
    """The one JSON type that every value of the schema has, where the schema says so plainly."""
    schema = _target(schema, root)
    if not isinstance(schema, dict) or _COMPOUND & schema.keys():
        return None
    kind = schema.get("type")
    return kind if isinstance(kind, str) else None


def _target(schema: Any, root: dict[str, Any]) -> Any:
    for _ in range(MAX_HOPS):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        schema = _lookup(schema["$ref"], root)
    return ANYTHING


def _lookup(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        return ANYTHING
    definitions = root.get("$defs") if isinstance(root, dict) else None
    name = reference.removeprefix("#/$defs/")
    return definitions.get(name, ANYTHING) if isinstance(definitions, dict) else ANYTHING
