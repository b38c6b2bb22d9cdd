"""
Changes that lose nothing (OUT-5): a fixed list, each recorded, and nothing beyond it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.completion.check import check_output
from mulligan.completion.verdict import Completed, SchemaViolation, Verdict

INT = {"type": "integer"}
TEXT = {"type": "string"}
LIST = {"type": "array", "items": INT}
ENUM = {"enum": ["ACTIVE", "CLOSED"]}


def judge(field: Any, value: Any, *, required: bool = True, **options: Any) -> Verdict:
    schema = {
        "type": "object",
        "properties": {"f": field, "other": TEXT},
        "required": ["f"] if required else [],
        "additionalProperties": False,
    }
    return check_output(json.dumps({"f": value}), schema, **options)


@pytest.mark.parametrize(
    ("field", "value", "wanted", "rule"),
    [
        (INT, "12", 12, "digits_for_integer"),
        (INT, "-12", -12, "digits_for_integer"),
        (INT, 7.0, 7, "whole_number"),
        (ENUM, "Active", "ACTIVE", "enum_case"),
        (LIST, "[1, 2]", [1, 2], "stringified"),
        ({"type": "object"}, '{"a": 1}', {"a": 1}, "stringified"),
        (LIST, {"0": 1, "1": 2}, [1, 2], "numeric_keys"),
        ({"anyOf": [INT, {"type": "null"}]}, "12", 12, "digits_for_integer"),
        ({"type": ["integer", "null"]}, "12", 12, "digits_for_integer"),
        ({"$ref": "#/properties/f/$defs/n", "$defs": {"n": INT}}, "12", 12, "digits_for_integer"),
    ],
)
def test_it_is_coerced_and_recorded(field: Any, value: Any, wanted: Any, rule: str) -> None:
    verdict = judge(field, value)

    assert isinstance(verdict, Completed)
    assert json.dumps({"f": wanted}) == json.dumps(verdict.output)
    assert [("/f", rule)] == [(c.path, c.rule) for c in verdict.coercions]


def test_coercions_reach_into_each_other() -> None:
    verdict = judge(LIST, '["1", 2]')

    assert isinstance(verdict, Completed)
    assert {"f": [1, 2]} == verdict.output
    assert ["stringified", "digits_for_integer"] == [c.rule for c in verdict.coercions]


@pytest.mark.parametrize("field", [TEXT, INT, ENUM, LIST, {"anyOf": [INT, TEXT]}])
def test_a_null_of_an_optional_field_is_dropped(field: Any) -> None:
    verdict = judge(field, None, required=False)

    assert isinstance(verdict, Completed)
    assert {} == verdict.output
    assert ["null_dropped"] == [c.rule for c in verdict.coercions]


def test_a_null_of_a_required_field_stays_and_does_not_fit() -> None:
    assert isinstance(judge(TEXT, None), SchemaViolation)


def test_a_null_that_the_schema_takes_stays() -> None:
    verdict = judge({"type": ["string", "null"]}, None, required=False)

    assert isinstance(verdict, Completed)
    assert {"f": None} == verdict.output


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (INT, 7.6),
        (INT, "7.0"),
        (INT, "007"),
        (INT, "1e3"),
        (INT, " 12"),
        (INT, "-0"),
        (INT, True),
        (INT, "twelve"),
        (TEXT, 12),
        (TEXT, True),
        (TEXT, ["x"]),
        ({"type": "number"}, "1.5"),
        ({"type": "boolean"}, "true"),
        (ENUM, "MIXED"),
        (ENUM, "active "),
        ({"enum": ["a", "A"]}, "á"),
        (LIST, "1"),
        (LIST, 1),
        (LIST, "[1, 2"),
        (LIST, "{}"),
        (LIST, {"0": 1, "2": 2}),
        (LIST, {"1": 1}),
        (LIST, {}),
        ({"type": "object"}, "[1]"),
        ({"anyOf": [INT, {"type": "boolean"}]}, "1"),
    ],
)
def test_it_is_not_coerced(field: Any, value: Any) -> None:
    assert isinstance(judge(field, value), SchemaViolation)


def test_an_enum_match_must_be_unique() -> None:
    assert isinstance(judge({"enum": ["On", "ON"]}, "on"), SchemaViolation)


@pytest.mark.parametrize("value", ["12", "[1]", "Active", '{"a": 1}', "007"])
def test_text_stays_text_where_text_fits(value: str) -> None:
    for field in (TEXT, {}, {"type": ["string", "integer", "array"]}):
        verdict = judge(field, value)
        assert isinstance(verdict, Completed)
        assert {"f": value} == verdict.output


def test_keys_are_neither_dropped_nor_matched_by_case() -> None:
    schema = {
        "type": "object",
        "properties": {"city": TEXT},
        "required": ["city"],
        "additionalProperties": False,
    }

    for value in ({"City": "Bern"}, {"city": "Bern", "n": None}, {"output": {"City": "Bern"}}):
        assert not isinstance(check_output(json.dumps(value), schema), Completed)


def test_a_scalar_becomes_a_list_on_request_only() -> None:
    assert isinstance(judge(LIST, 1), SchemaViolation)
    verdict = judge(LIST, 1, scalar_for_list=True)

    assert isinstance(verdict, Completed)
    assert {"f": [1]} == verdict.output
    assert isinstance(judge(LIST, None, scalar_for_list=True), SchemaViolation)


def test_the_word_null_is_not_taken_where_a_real_null_could_stand() -> None:
    """It may be meant as none or as text; nothing tells which."""
    for field in (
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    ):
        verdict = judge(field, "null")
        assert isinstance(verdict, SchemaViolation)
        assert ("null_as_text", "/f") == (verdict.issues[0].code, verdict.issues[0].path)
    assert isinstance(judge(TEXT, "null"), Completed)
