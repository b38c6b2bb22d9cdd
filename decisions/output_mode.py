"""
How an agent hands in its output (REC-24): the mode in force, and what `auto` picks.

The modes by strength: `native` (the provider holds the model to the schema while it writes), `tool`
(the schema is that of a hidden function's arguments), `prompt` (the schema is told, and the output
read from text). `auto` takes the strongest that can express the agent's schema exactly, as it is:
a schema is never rewritten to fit a mode, and one that does not fit is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mulligan.events.facts import OutputMode
from mulligan.providers.endpoints import holds_to_schemas
from mulligan.schemas.plan import AgentPlan

NATIVE_WORDS = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "enum",
        "const",
        "$ref",
        "$defs",
        "title",
        "description",
    }
)
"""
What every provider with native schemas takes in its strict form and keeps to. Bounds, patterns and
formats are kept to by some and passed over by others, so a schema with them is not theirs.
"""
NATIVE_DEPTH = 5
NATIVE_PROPERTIES = 100
NATIVE_ENUM = 500
"""The smallest limits that providers document for strict schemas."""

_ANCHORS = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"})


def mode_of(agent: AgentPlan, api_base: str | None = None) -> OutputMode:
    """
    The mode in force: the one that the workflow names, or the strongest that fits; `api_base` is
    the address that the workflow's settings name.
    """
    if agent.mode != "auto":
        return agent.mode
    if _held_natively(agent, api_base) and fits_native(agent.output_schema):
        return "native"
    return "tool" if fits_tool(agent.output_schema) else "prompt"


def _held_natively(agent: AgentPlan, api_base: str | None) -> bool:
    """Many servers let a model that is held to a schema write nothing else, not even a call."""
    alone = not (agent.tools or agent.subagents or agent.allow_user_input)
    return alone and holds_to_schemas(agent.model or "", api_base)


def fits_native(schema: Mapping[str, Any]) -> bool:
    """
    Whether strict native schemas say exactly this: an object at the root, and everywhere only known
    words, every property required and no other allowed, references to definitions alone.
    """
    if schema.get("type") != "object":
        return False
    properties = 0
    for depth, part in _subschemas(schema, 1):
        if not isinstance(part, Mapping) or depth > NATIVE_DEPTH or not _is_strict(part):
            return False
        properties += len(part.get("properties", {}))
    return properties <= NATIVE_PROPERTIES


def _is_strict(part: Mapping[str, Any]) -> bool:
    if not part or part.keys() - NATIVE_WORDS or len(part.get("enum", ())) > NATIVE_ENUM:
        return False
    if "$ref" in part and not str(part["$ref"]).startswith("#/$defs/"):
        return False
    types = part.get("type", ())
    types = [types] if isinstance(types, str) else types
    if "array" in types and not isinstance(part.get("items"), Mapping):
        return False
    if "object" not in types:
        return "properties" not in part
    names = part.get("properties", {}).keys()
    closed = part.get("additionalProperties") is False
    return closed and set(part.get("required", ())) == names


def fits_tool(schema: Mapping[str, Any]) -> bool:
    """
    Whether the schema means the same as a part of the hidden tool's arguments: its references are
    to its definitions, which move along, and not to its root or to names of its own.
    """
    for place in _nodes(schema):
        if place.keys() & _ANCHORS:
            return False
        reference = place.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#/$defs/"):
            return False
    return True


def _subschemas(schema: Any, depth: int) -> Iterator[tuple[int, Any]]:
    """The schema and all within it that are schemas, with their depth as objects nest."""
    yield depth, schema
    if not isinstance(schema, Mapping) or depth > NATIVE_DEPTH:
        return
    for part in schema.get("$defs", {}).values():
        yield from _subschemas(part, depth)
    for part in schema.get("anyOf", ()):
        yield from _subschemas(part, depth)
    within = [*schema.get("properties", {}).values()]
    if "items" in schema:
        within.append(schema["items"])
    for part in within:
        yield from _subschemas(part, depth + 1)


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            yield node
            stack += node.values()
        elif isinstance(node, list):
            stack += node
