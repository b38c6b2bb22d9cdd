"""Placeholders in prompts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.errors import ExpressionFailed
from mulligan.schemas.references import resolve_items
from mulligan.schemas.templates import placeholders, render

VALUES = {
    "item": "a part",
    "index": 3,
    "input": {"topic": "tea", "flag": True},
    "collect": {"items": ["x", {"y": 1}], "none": None},
    "fact-check": {"ok": False},
    "skipped": None,
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("about {item}", "about a part"),
        ("{index}: {input.topic}", "3: tea"),
        ("{input}", '{"topic":"tea","flag":true}'),
        ("{collect.items}", '["x",{"y":1}]'),
        ("{collect.items[1].y}{collect.items[0]}", "1x"),
        ("{collect.none} {skipped.anything.below}", "null null"),
        ("{fact-check.ok}", "false"),
        ("{{item}}", "{item}"),
        ("{{{item}}}", "{a part}"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": {"b": {}}} {} { item } {1}', '{"a": {"b": {}}} {} { item } {1}'),
        ('{"topic": "{input.topic}"}', '{"topic": "tea"}'),
        ('{"n": {index}}', '{"n": 3}'),
    ],
)
def test_only_a_reference_in_braces_is_replaced(template: str, text: str) -> None:
    assert text == render(template, VALUES)


@pytest.mark.parametrize(
    "template", ["{nobody}", "{input.titel}", "{collect.items[9]}", "{item.x}"]
)
def test_what_is_not_there_is_an_error_that_names_it(template: str) -> None:
    with pytest.raises(ExpressionFailed) as caught:
        render(template, VALUES)
    assert template[1:-1] == caught.value.expression


@given(st.text(alphabet="{}ab.[]0 \n\"'"))
def test_text_that_holds_no_placeholder_comes_out_as_it_went_in(text: str) -> None:
    if "{{" not in text and not list(placeholders(text)):
        assert text == render(text, {})


@given(st.dictionaries(st.sampled_from(["a", "b", "c-d"]), st.text(), min_size=3))
def test_braces_in_values_are_never_read_again(values: dict[str, str]) -> None:
    assert "|".join(values.values()) == render("|".join(f"{{{k}}}" for k in values), values)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab{}"), inner),
    max_leaves=10,
)


@given(json_values)
def test_values_that_are_not_text_are_rendered_as_json_that_reads_back(value: object) -> None:
    assert value == json.loads(render("{v}", {"v": value}))


def test_the_line_of_a_placeholder_is_known() -> None:
    assert [0, 2] == [one.line_offset for one in placeholders("{a}\n\n {b}")]


def test_for_each_takes_a_list_and_nothing_for_a_skipped_node() -> None:
    assert ["x", {"y": 1}] == resolve_items("collect.items", VALUES)
    assert [] == resolve_items("skipped.items", VALUES)
    with pytest.raises(ExpressionFailed, match="needs a list"):
        resolve_items("input.topic", VALUES)
    with pytest.raises(ExpressionFailed, match="not a reference"):
        resolve_items("input topic", VALUES)
