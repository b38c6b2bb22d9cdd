"""
Schemas that authors write (REC-25, OUT-1).
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.schemas.author_schema import (
    DEFAULT_OUTPUT_SCHEMA,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_NODES,
    check_author_schema,
    is_of_object,
)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    while levels > 1:
        schema, levels = {"type": "object", "not": schema}, levels - 1
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        DEFAULT_OUTPUT_SCHEMA,
        {"type": "object"},
        {"properties": {"a": {}}},
        {"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}},
        {"allOf": [{"type": "object"}, {"required": ["a"]}]},
        {"oneOf": [{"type": "object"}, {"required": ["a"]}]},
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"type": "object", "properties": {"a": {"const": {"$ref": "https://example.org"}}}},
        nested(MAX_SCHEMA_DEPTH),
    ],
)
def test_these_are_fine(schema: dict[str, Any]) -> None:
    assert [] == check_author_schema(schema)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "wrap it"),
        ({"type": "string"}, "wrap it"),
        ({"type": ["object", "null"]}, "wrap it"),
        ({}, "wrap it"),
        ({"anyOf": [{"type": "object"}, {"type": "array"}]}, "wrap it"),
        (["object"], "a schema is an object"),
        ("object", "a schema is an object"),
        (None, "a schema is an object"),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "/properties/a/type"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "/properties/a/$ref"),
        ({"type": "object", "$dynamicRef": "other.json"}, "/$dynamicRef"),
        ({"type": "object", "$ref": "#/$defs/gone"}, "points to nothing"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"}, "2020-12"),
        ({"type": "object", "pattern": "("}, "pattern"),
        ({"type": "object", "description": "x" * 1024 * 1024}, "bytes"),
        (nested(MAX_SCHEMA_DEPTH + 1), "nested deeper than 100"),
        (nested(100_000), "the schema is no JSON"),
        (
            {"type": "object", "properties": {str(n): {} for n in range(MAX_SCHEMA_NODES)}},
            "more than 4096 nodes",
        ),
    ],
)
def test_these_are_refused_with_place_and_advice(schema: Any, said: str) -> None:
    problems = check_author_schema(schema)

    assert 1 == len(problems)
    assert said in problems[0]
    assert problems[0].startswith("/")
    assert "(" in problems[0], "what to do"


def test_a_schema_that_refers_to_itself_is_judged_all_the_same() -> None:
    tree = {"type": "object", "properties": {"children": {"items": {"$ref": "#"}}}}

    assert [] == check_author_schema(tree)
    assert not is_of_object({"$ref": "#"})
    assert check_author_schema({"$ref": "#"})
