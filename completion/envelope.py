"""
The envelope `{output, assistant_message}` and what models send in its place (OUT-4).
"""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.completion.validate import CompiledSchema
from mulligan.completion.verdict import Issue
from mulligan.schemas.author_schema import resolved

_KEYS = frozenset({"output", "assistant_message"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input"})
"""Beside `name` these make a tool call, even where the schema has a field of that name."""


class Reading(msgspec.Struct, frozen=True):
    """One way to read arguments as an output."""

    name: str
    output: Any
    assistant_message: str | None = None

    def __repr__(self) -> str:
        return f"Reading({self.name!r}, <{type(self.output).__name__}>)"


def readings(value: Any, schema: CompiledSchema) -> tuple[Reading, ...] | Issue:
    """The ways to read the arguments, the likeliest first; an Issue if there is none."""
    if not schema.of_object:
        return (Reading("bare", value),)
    if not isinstance(value, dict):
        return Issue("not_an_object", message="the arguments are no object")
    found = (_enveloped(value), _flat(value, schema), _message_alone(value, schema))
    return tuple(reading for reading in found if reading is not None) or Issue(
        "unknown_keys", message="neither output and assistant_message, nor the output's own fields"
    )


def _enveloped(value: dict[str, Any]) -> Reading | None:
    message = value.get("assistant_message")
    if "output" not in value or not value.keys() <= _KEYS:
        return None
    if not isinstance(message, str | None):
        return None
    return Reading("envelope", value["output"], message)


def _flat(value: dict[str, Any], schema: CompiledSchema) -> Reading | None:
    """
    The fields themselves. Keys that the schema does not name are the schema's business, as long as
    a named one stands beside them and none of them wraps the named ones.
    """
    others = value.keys() - schema.properties
    if not others or not schema.properties:
        return Reading("flat", value)
    if (
        others == value.keys()
        or others & _KEYS
        or ("name" in value and others & _ARGUMENTS)
        or any(_wraps(value[key], schema) for key in others)
    ):
        return None
    return Reading("flat", value)


def _wraps(member: Any, schema: CompiledSchema) -> bool:
    if isinstance(member, str):
        return member.lstrip()[:1] == "{"
    return isinstance(member, dict) and bool(member.keys() & schema.properties)


def _message_alone(value: dict[str, Any], schema: CompiledSchema) -> Reading | None:
    message = value.get("assistant_message")
    field = _first_required_string(schema)
    if value.keys() != {"assistant_message"} or not isinstance(message, str) or field is None:
        return None
    return Reading("message_alone", {field: message})


def _first_required_string(schema: CompiledSchema) -> str | None:
    root = resolved(schema.schema, schema.schema)
    properties = root.get("properties", {}) if isinstance(root, dict) else {}
    for name in root.get("required", ()) if isinstance(root, dict) else ():
        field = resolved(properties.get(name), schema.schema)
        if isinstance(field, dict) and field.get("type") == "string":
            return str(name)
    return None
