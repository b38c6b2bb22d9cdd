"""
The envelope and what comes in its place (OUT-1, OUT-4).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.completion.check import check_output
from mulligan.completion.verdict import (
    Completed,
    InvalidJson,
    SchemaViolation,
    Verdict,
    WrongEnvelope,
)
from mulligan.schemas.author_schema import DEFAULT_OUTPUT_SCHEMA

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPEN = {key: value for key, value in CITY.items() if key != "additionalProperties"}


def judge(value: Any, schema: dict[str, Any] | None = CITY) -> Verdict:
    return check_output(json.dumps(value), schema)


def test_the_envelope_comes_off() -> None:
    verdict = judge({"output": {"city": "Bern"}, "assistant_message": "Done."})

    assert isinstance(verdict, Completed)
    assert ({"city": "Bern"}, "Done.") == (verdict.output, verdict.assistant_message)


@pytest.mark.parametrize("rest", [{}, {"assistant_message": None}])
def test_a_missing_or_null_message_is_accepted(rest: dict[str, Any]) -> None:
    verdict = judge({"output": {"city": "Bern"}, **rest})

    assert isinstance(verdict, Completed)
    assert verdict.assistant_message is None


def test_flat_arguments_are_the_output() -> None:
    verdict = judge({"city": "Bern", "days": 3})

    assert isinstance(verdict, Completed)
    assert {"city": "Bern", "days": 3} == verdict.output


def test_an_envelope_in_a_string_comes_off() -> None:
    verdict = judge({"output": json.dumps({"city": "Bern"}), "assistant_message": "x"})

    assert isinstance(verdict, Completed)
    assert ["stringified"] == [coercion.rule for coercion in verdict.coercions]


def test_a_message_alone_is_the_first_required_text() -> None:
    verdict = judge({"assistant_message": "All fine."}, DEFAULT_OUTPUT_SCHEMA)

    assert isinstance(verdict, Completed)
    assert {"summary": "All fine."} == verdict.output


@pytest.mark.parametrize(
    "value",
    [
        {"answer": {"city": "Bern"}, "confidence": 1},
        {"output": {"city": "Bern"}, "confidence": 1},
        {"output": {"city": "Bern"}, "assistant_message": 3},
        {"city": "Bern", "assistant_message": "Done."},
        {"name": "submit_output", "arguments": {"city": "Bern"}},
        {"assistant_message": None},
        [{"city": "Bern"}],
        "Bern",
        None,
        3,
    ],
)
@pytest.mark.parametrize("schema", [CITY, OPEN])
def test_anything_else_is_a_wrong_envelope(value: Any, schema: dict[str, Any]) -> None:
    assert isinstance(judge(value, schema), WrongEnvelope | InvalidJson)


def test_a_wrapper_that_an_open_schema_would_take_is_none_of_its_fields() -> None:
    """The call's name is not the name that the schema asks for."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

    verdict = judge({"name": "create_user", "arguments": {"name": "Ann"}}, schema)

    assert isinstance(verdict, WrongEnvelope)


def test_further_keys_are_the_schema_s_business_beside_a_named_one() -> None:
    assert isinstance(judge({"city": "Bern", "n": 1}, OPEN), Completed)
    assert not isinstance(judge({"city": "Bern", "n": 1}, CITY), Completed)
    assert isinstance(judge({"n": 1}, OPEN), WrongEnvelope)


def test_a_schema_with_a_field_named_output_is_read_both_ways() -> None:
    schema = {
        "type": "object",
        "properties": {"output": {"type": "string"}},
        "required": ["output"],
    }

    for value in ({"output": "x"}, {"output": {"output": "x"}}):
        verdict = judge(value, schema)
        assert isinstance(verdict, Completed)
        assert {"output": "x"} == verdict.output


def test_no_arguments_at_all_are_an_object_only_if_nothing_is_required() -> None:
    """OUT-3: nothing is ever replaced by {}."""
    free = {"type": "object", "properties": {"city": {"type": "string"}}}

    verdict = check_output("", free)
    assert isinstance(verdict, Completed)
    assert {} == verdict.output
    assert isinstance(check_output("", CITY), InvalidJson)
    assert isinstance(check_output("", free, mode="prompt"), InvalidJson)
    assert not isinstance(check_output("\ufeff", free), Completed)


@pytest.mark.parametrize("value", [1, "x", None, [1, {"a": 2}], {"output": 1}, True])
def test_without_a_schema_any_value_is_taken_as_it_is(value: Any) -> None:
    verdict = judge(value, None)

    assert isinstance(verdict, Completed)
    assert value == verdict.output


def test_a_schema_that_is_not_of_an_object_has_no_envelope() -> None:
    verdict = judge([1, 2], {"type": "array", "items": {"type": "integer"}})

    assert isinstance(verdict, Completed)
    assert [1, 2] == verdict.output


def test_a_null_output_does_not_fit() -> None:
    assert isinstance(judge({"output": None, "assistant_message": "x"}), SchemaViolation)
