"""
For any JSON value and a schema that it fits (OUT-2, OUT-3): cuts, repetition, arbitrary text.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.completion.check import check_output
from mulligan.completion.decode import MAX_DEPTH, Decoded, Unusable, decode
from mulligan.completion.verdict import Completed, TruncatedResponse, Verdict

texts = st.text(max_size=10)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def schema_of(value: Any) -> dict[str, Any]:
    """A schema that the value fits, and little else."""
    match value:
        case dict():
            properties = {key: schema_of(member) for key, member in value.items()}
            return {"type": "object", "properties": properties, "required": list(value)}
        case list():
            return {"type": "array", "prefixItems": [schema_of(item) for item in value] or [{}]}
        case None:
            return {"type": "null"}
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case _:
            return {"type": "string"}


objects = st.dictionaries(texts, values, min_size=1, max_size=4)
dumps = st.sampled_from([None, 1, 4]).map(
    lambda indent: lambda value: json.dumps(value, indent=indent, ensure_ascii=indent == 1)
)


@settings(max_examples=150)
@given(value=objects, dump=dumps, data=st.data())
def test_every_cut_is_truncated(value: dict[str, Any], dump: Any, data: st.DataObject) -> None:
    text = dump({"output": value, "assistant_message": "ok"})
    cut = data.draw(st.integers(1, len(text) - 1))

    verdict = check_output(text[:cut], schema_of(value), finish_reason="tool_calls")

    assert isinstance(verdict, TruncatedResponse)


@settings(max_examples=150)
@given(value=st.lists(values) | st.dictionaries(texts, values) | texts, data=st.data())
def test_every_cut_of_a_bare_value_is_truncated(value: Any, data: st.DataObject) -> None:
    """Numbers and literals at the top have no end of their own, and are left out."""
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))

    assert isinstance(check_output(text[:cut]), TruncatedResponse)


@settings(max_examples=150)
@given(value=objects, dump=dumps)
def test_what_is_completed_stays_when_it_is_judged_again(value: dict[str, Any], dump: Any) -> None:
    first = check_output(dump({"output": value}), schema_of(value))
    assert isinstance(first, Completed)
    again = check_output(json.dumps({"output": first.output}), schema_of(value))
    assert isinstance(again, Completed)

    assert value == first.output == again.output
    assert () == again.coercions


@settings(max_examples=150)
@given(
    text=st.text(st.characters()) | st.binary() | st.text(st.sampled_from("{}[]\"',:\\ a1\n`<>/="))
)
def test_no_text_raises(text: str | bytes) -> None:
    for schema in (None, {"type": "object", "properties": {"a": {}}}):
        verdict: Verdict = check_output(text, schema, mode="prompt")
        msgspec.json.encode(verdict)


@settings(max_examples=150)
@given(text=st.text(st.sampled_from("{}[]\"',:\\ a1\n.-"), min_size=1, max_size=25))
def test_what_json_reads_is_what_it_reads(text: str) -> None:
    """Strict decoding agrees with the standard library wherever it gives a value."""
    try:
        expected = json.loads(text)
    except ValueError:
        assert decode(text) is None
        return
    found = decode(text)

    assert isinstance(found, Unusable) or (
        isinstance(found, Decoded) and json.dumps(found.value) == json.dumps(expected)
    )


@given(number=st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_numbers_keep_their_value(number: float) -> None:
    assert Decoded([number]) == decode(f"[{number!r}]")


def test_duplicate_keys_are_seen_wherever_they_are() -> None:
    for text in (
        '{"a": 1, "a": 1}',
        '{"a": {"b": [{"c": 1, "c": 2}]}}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": "\\u003a", "a": 1, "b": ":"}',
        '{"a": {"x": ":"}, "a": {"x": 1}, "b": "::"}',
    ):
        result = decode(text)
        assert isinstance(result, Unusable)
        assert "duplicate_key" == result.code


def test_depth_is_refused_beyond_its_limit_alone() -> None:
    def nested(levels: int) -> str:
        return "[" * levels + "]" * levels

    assert isinstance(decode(nested(MAX_DEPTH)), Decoded)
    for levels in (MAX_DEPTH + 1, 500):
        assert isinstance(decode(nested(levels)), Unusable)
    assert not isinstance(check_output(nested(100_000)), Completed)
    wide = json.dumps([[[]] * 10] * 100)
    assert isinstance(decode(wide), Decoded)
