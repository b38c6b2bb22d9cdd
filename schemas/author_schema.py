"""
Is a schema that an author wrote fit for outputs (REC-25, OUT-1)? Pure; asked when a file is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match

MAX_SCHEMA_BYTES = 1024 * 1024
MAX_SCHEMA_DEPTH = 100
MAX_SCHEMA_NODES = 4_096
"""A node is an object or an array of the schema's JSON."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

DEFAULT_OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}
"""OUT-1: what a node without a schema of its own gives."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def check_author_schema(schema: object) -> list[str]:
    """
    The problems of a schema, each as `place: what is wrong (what to do)`; empty if there are none.

    Beside the limits of `schema_problems` it must be of an object, since an output is one.
    """
    problems = schema_problems(schema)
    if problems or is_of_object(schema):
        return problems
    hint = 'wrap it: {"type": "object", "properties": {"items": <it>}, "required": ["items"]}'
    return [f"/: an output is an object, and this schema is not of one ({hint})"]


def schema_problems(schema: object) -> list[str]:
    """What makes any schema unusable: its size, depth, references, or a broken rule of its own."""
    if not isinstance(schema, Mapping):
        return [f"/: a schema is an object, not {_kind(schema)} (write a mapping)"]
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError):
        return ["/: the schema is no JSON (write it with JSON's types alone)"]
    if size > MAX_SCHEMA_BYTES:
        return [f"/: {size} bytes, and at most {MAX_SCHEMA_BYTES} are allowed (make it smaller)"]
    return _shape_problems(schema) or _reference_problems(schema) or _rule_problems(schema)


def misfit_of(value: object, schema: Mapping[str, Any]) -> str | None:
    """Where a value does not fit a schema, and which of its rules; None: it fits."""
    problem = best_match(Draft202012Validator(schema).iter_errors(value))
    return f"{problem.json_path}: {problem.validator} is not met" if problem is not None else None


def is_of_object(schema: object) -> bool:
    """Whether the schema is of objects: by its type, or by what it refers to or combines."""
    return _of_object(schema, schema, 8)


def resolved(schema: object, root: object) -> object:
    """The schema that a local reference points to, or the schema itself; None if it has no end."""
    for _ in range(16):
        if not (isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)):
            return schema
        schema = _pointed(schema["$ref"], root)
    return None


def _of_object(schema: object, root: object, hops: int) -> bool:
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or hops == 0:
        return False
    if "type" in schema:
        return schema["type"] in ("object", ["object"])
    if any(word in schema for word in ("properties", "required", "patternProperties")):
        return True
    if any(_of_object(part, root, hops - 1) for part in schema.get("allOf", ())):
        return True
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return bool(branches) and all(_of_object(branch, root, hops - 1) for branch in branches)


def _pointed(reference: str, root: object) -> object:
    if reference != "#" and not reference.startswith("#/"):
        return None
    place = root
    for piece in reference.removeprefix("#").split("/")[1:]:
        key = piece.replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = place.get(key)
        elif isinstance(place, list) and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        else:
            return None
    return place


def _shape_problems(schema: Mapping[str, Any]) -> list[str]:
    for nodes, (depth, _, _) in enumerate(_walk(schema), start=1):
        if depth > MAX_SCHEMA_DEPTH:
            return [f"/: nested deeper than {MAX_SCHEMA_DEPTH} levels (use $defs and $ref)"]
        if nodes > MAX_SCHEMA_NODES:
            return [f"/: more than {MAX_SCHEMA_NODES} nodes (use $defs and $ref)"]
    return []


def _reference_problems(schema: Mapping[str, Any]) -> list[str]:
    problems = []
    for _, path, node in _walk(schema):
        if not isinstance(node, Mapping) or path.endswith(("/enum", "/const", "/properties")):
            continue
        if str(node.get("$schema", DIALECT)).rstrip("#") != DIALECT:
            problems.append(f"{path}/$schema: only JSON Schema 2020-12 is read (write {DIALECT})")
        problems += [
            f"{path}/{word}: only references within the schema are followed (begin it with #)"
            for word in _REFERENCES
            if isinstance(node.get(word), str) and not node[word].startswith("#")
        ]
        reference = node.get("$ref")
        reference = reference if isinstance(reference, str) else ""
        if reference.startswith("#/") and _pointed(reference, schema) is None:
            problems.append(f"{path}/$ref: points to nothing (add it under $defs)")
    return problems


def _rule_problems(schema: Mapping[str, Any]) -> list[str]:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/" + "/".join(str(piece) for piece in error.absolute_path)
        return [f"{place}: {error.message[:200]} (see the JSON Schema 2020-12 keyword)"]
    except RecursionError:
        return ["/: the schema refers to itself without end (break the circle)"]
    return []


def _walk(schema: object) -> Iterator[tuple[int, str, object]]:
    """Every mapping and list of the schema with its depth and place, without recursion."""
    stack: list[tuple[int, str, object]] = [(1, "", schema)]
    while stack:
        depth, path, node = stack.pop()
        yield depth, path, node
        if isinstance(node, Mapping):
            children = list(node.items())
        else:
            children = list(enumerate(node)) if isinstance(node, list) else []
        stack += [(depth + 1, f"{path}/{key}", child) for key, child in reversed(children)
                  if isinstance(child, Mapping | list)]  # fmt: skip


def _kind(value: object) -> str:
    return {bool: "a boolean", list: "a list", str: "a text", type(None): "nothing"}.get(
        type(value), f"a {type(value).__name__}"
    )
