"""
JSON Schema 2020-12 (OUT-5): jsonschema's verdict whichever validator runs, and issues that tell
where and why without quoting the value.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY

from mulligan.completion.check import check_output
from mulligan.completion.validate import compiled
from mulligan.completion.verdict import MAX_DETAIL_CHARACTERS, SchemaViolation, detail
from mulligan.schemas.author_schema import schema_problems

SUITE = Path(__file__).parent / "data" / "json-schema-test-suite-2020-12.jsonl.gz"


def groups() -> Iterator[dict[str, Any]]:
    with gzip.open(SUITE, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def reference(schema: Any, value: Any) -> bool:
    return Draft202012Validator(schema, registry=REGISTRY).is_valid(value)


def test_the_official_suite_is_judged_as_jsonschema_judges_it() -> None:
    """Groups that `schema_problems` refuses (remote references, other dialects) never get there."""
    judged, fast, differing = 0, 0, []
    for group in groups():
        schema = group["schema"]
        if schema_problems(schema):
            continue
        shape = compiled(schema)
        for test in group["tests"]:
            judged += 1
            fast += shape.fast is not None
            if shape.fits(test["data"]) != reference(schema, test["data"]):
                differing.append((group["file"], group["description"], test["description"]))

    assert [] == differing
    assert judged > 1_500
    assert fast > 700, "most schemas are within the reach of the fast validator"


def test_the_official_suite_is_judged_as_it_says_itself() -> None:
    """All required tests whose schemas an author may write; formats only annotate by default."""
    wrong = [
        (group["file"], group["description"], test["description"])
        for group in groups()
        if "/" not in group["file"] and not schema_problems(group["schema"])
        for test in group["tests"]
        if compiled(group["schema"]).fits(test["data"]) != test["valid"]
    ]

    assert [] == wrong


scalars = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        -1,
        1.0,
        1.5,
        2**53,
        2**53 + 1,
        2**64,
        10**30,
        0.1,
        1e308,
        -0.0,
        "",
        "a",
        "b",
        "A",
        "é",
        "😀",
        "1",
        "null",
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
numbers = st.sampled_from([0, 1, 2, 1.5, -1, 2**53, 10**30])
sizes = st.integers(0, 3)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    kinds = ["null", "boolean", "integer", "number", "string", "array", "object"]
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(kinds)
            | st.lists(st.sampled_from(kinds), min_size=1, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "properties": named,
            "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "uniqueItems": st.booleans(),
            "minItems": sizes,
            "maxItems": sizes,
            "minLength": sizes,
            "maxLength": sizes,
            "minimum": numbers,
            "exclusiveMaximum": numbers,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "propertyNames": inner,
            "dependentRequired": st.just({"a": ["b"]}),
        },
    )


schemas = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=5).filter(
    lambda schema: isinstance(schema, dict)
)


@settings(max_examples=120)
@given(schema=schemas, value=values)
def test_random_schemas_and_values_are_judged_as_jsonschema_judges_them(
    schema: dict[str, Any], value: Any
) -> None:
    shape = compiled(schema)

    assert shape.fast is not None
    assert reference(schema, value) == shape.fits(value)


def test_what_the_validators_see_differently_is_left_to_jsonschema() -> None:
    for schema in (
        {"pattern": r"^\d$"},
        {"properties": {"a": {"patternProperties": {"x": {}}}}},
        {"$dynamicRef": "#a"},
        {"dependencies": {"a": ["b"]}},
        {"multipleOf": 0.1},
        {"unevaluatedProperties": False},
    ):
        assert compiled(schema).fast is None
    assert compiled({"properties": {"pattern": {"const": {"pattern": 1}}}}).fast is not None


ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["id", "lines"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}


def test_issues_name_code_paths_and_rule() -> None:
    verdict = check_output('{"id": 0, "lines": [{"sku": "a"}, {"sku": 5}]}', ORDER)

    assert isinstance(verdict, SchemaViolation)
    assert [
        ("minimum", "/id", "/properties/id/minimum"),
        ("type", "/lines/1/sku", "/properties/lines/items/properties/sku/type"),
    ] == [(issue.code, issue.path, issue.schema_path) for issue in verdict.issues]
    assert "must be string, and is integer" == verdict.issues[1].message
    assert "lacks required: lines" in detail(check_output('{"id": 1}', ORDER).issues)  # type: ignore[union-attr]


def test_issues_are_few_and_short() -> None:
    """OUT-5: at most 20 issues, and a detail of at most 512 characters."""
    verdict = check_output(json.dumps({"id": 1, "lines": [7] * 500}), ORDER)

    assert isinstance(verdict, SchemaViolation)
    assert 20 == len(verdict.issues)
    assert MAX_DETAIL_CHARACTERS == len(detail(verdict.issues))


def test_a_schema_that_can_t_be_followed_is_an_issue_and_no_exception() -> None:
    """What `check_author_schema` would have refused."""
    for schema in ({"$ref": "http://127.0.0.1:9/x"}, {"$ref": "#"}, {"pattern": "("}):
        shape = compiled({"type": "object", "properties": {"a": schema}})
        assert not shape.fits({"a": "x"}) or schema == {"$ref": "#"}
