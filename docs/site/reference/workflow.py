"""The keys of a workflow file, out of its JSON Schema."""

from __future__ import annotations

import json
from typing import Any

from mulligan.schemas.workflow import workflow_json_schema
from reference.table import table

TITLES = {
    "Settings": "settings",
    "AgentNode": "nodes: an agent",
    "FunctionNode": "nodes: a function",
    "RepairNode": "nodes: a repair loop",
    "WaitNode": "nodes: a wait for a signal",
    "AgentDefinition": "agents",
    "McpServerDefinition": "mcp",
    "McpToolOptions": "mcp: a tool",
    "RetryPolicy": "settings: retry",
    "FunctionRetry": "nodes: a function's retry",
    "Limits": "settings: limits",
    "Web": "settings: web",
}
"""What each part is called, in the order in which a reader meets them."""


def workflow() -> str:
    """A section for the file, and one for each part of it."""
    schema = workflow_json_schema()
    parts = schema["$defs"]
    assert set(TITLES) == set(parts), set(TITLES) ^ set(parts)
    return _section("The file", schema) + "".join(
        _section(title, parts[name]) for name, title in TITLES.items()
    )


def _section(title: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (f"`{key}`", _type(one), "required" if key in required else _default(one))
        for key, one in schema["properties"].items()
    ]
    told = schema.get("description", "")
    return f"\n## {title}\n\n{told}\n\n{table(('key', 'is', 'default'), rows)}"


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    plain = value is not None and not isinstance(value, dict)
    return f"`{json.dumps(value)}`" if plain else ""


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        kinds = [_type(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "oneOf" in schema:
        return "one of the kinds below"
    if "$ref" in schema:
        return f"see {TITLES[schema['$ref'].rpartition('/')[2]]}"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("description"):
        return str(schema["description"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    for one in schema.get("patternProperties", {}).values():
        return f"by name: {_type(one)}"
    bounds = [f"at least {schema['minimum']}" for _ in (0,) if "minimum" in schema]
    bounds += [f"at most {schema['maximum']}" for _ in (0,) if "maximum" in schema]
    return ", ".join([str(schema.get("type", "any")), *bounds])
