"""
The strict form of a JSON Schema that providers ask for (READ-2), and the way back.

In it every property of an object is required, no other is allowed, and what was optional may be
null instead.
"""

from __future__ import annotations

from typing import Any

__all__ = ["drop_strict_nulls", "strict_schema"]

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("$defs", "definitions")
MAX_HOPS = 50
"""References that are followed at one place; a chain of more is a circle."""


def strict_schema(schema: Any) -> Any:
    """A copy of `schema` in the strict form; the plain one stays as it is."""
    if not isinstance(schema, dict):
        return schema
    strict = dict(schema)
    for key in _LISTS:
        if key in strict:
            strict[key] = [strict_schema(branch) for branch in strict[key]]
    for key in _MAPS:
        if key in strict:
            strict[key] = {name: strict_schema(part) for name, part in strict[key].items()}
    if "items" in strict:
        strict["items"] = strict_schema(strict["items"])
    if "properties" in strict:
        _close(strict)
    return strict


def _close(strict: dict[str, Any]) -> None:
    """Make every property required, the optional ones nullable, and allow no other."""
    required = set(strict.get("required", ()))
    strict["properties"] = {
        name: strict_schema(part) if name in required else _nullable(strict_schema(part))
        for name, part in strict["properties"].items()
    }
    strict["required"] = list(strict["properties"])
    strict["additionalProperties"] = False


def _nullable(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key != "default"}
    if _takes_null(schema):
        return plain
    if isinstance(plain.get("type"), str) and not {"enum", "const"} & plain.keys():
        return plain | {"type": [plain["type"], "null"]}
    return {"anyOf": [plain, {"type": "null"}]}


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    kind = schema.get("type")
    if kind is not None and kind != "null" and not (isinstance(kind, list) and "null" in kind):
        return False
    if "$ref" in schema or "const" in schema or "enum" in schema:
        return None in schema.get("enum", ()) or ("const" in schema and schema["const"] is None)
    branches = schema.get("anyOf") or schema.get("oneOf")
    return branches is None or any(map(_takes_null, branches))


def drop_strict_nulls(schema: dict[str, Any], value: Any) -> Any:
    """
    A value of the strict form in the plain one: a null is left out where it stands for nothing.

    That is where the plain schema has the property as optional and takes no null for it. Any other
    null stays, for validation to judge.
    """
    return _dropped(schema, value, schema)


def _dropped(schema: Any, value: Any, root: dict[str, Any]) -> Any:
    schema = _only_branch(schema, root)
    if isinstance(value, list):
        return [_dropped(schema.get("items"), item, root) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        name: _dropped(properties.get(name), part, root)
        for name, part in value.items()
        if part is not None
        or name in required
        or name not in properties
        or _takes_null(_only_branch(properties[name], root, with_null=True))
    }


def _only_branch(schema: Any, root: dict[str, Any], *, with_null: bool = False) -> dict[str, Any]:
    """The schema behind local `$ref`s and, in a choice of one thing or null, that thing's."""
    for _ in range(MAX_HOPS):
        if not isinstance(schema, dict):
            break
        branches = [branch for branch in schema.get("anyOf", ()) if branch != {"type": "null"}]
        reference = str(schema.get("$ref", ""))
        if reference.startswith("#/$defs/"):
            schema = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        elif len(branches) == 1 and not with_null:
            schema = branches[0]
        else:
            return schema
    return {}
