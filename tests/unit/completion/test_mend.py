"""
Malformed candidates (OUT-3, 5 and 6): mended without a change of content, or not at all.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.completion.check import check_output
from mulligan.completion.conserve import conserves
from mulligan.completion.verdict import Completed, InvalidJson, TruncatedResponse

MENDED: list[tuple[str, Any]] = [
    ('{"a": 1, "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
    ("{'a': 'x', 'b': True, 'c': None}", {"a": "x", "b": True, "c": None}),
    ("{'a': (1, 'x')}", {"a": [1, "x"]}),
    ('{a: 1, _b: "x", $c: 2, d-e: 3, 4: 5}', {"a": 1, "_b": "x", "$c": 2, "d-e": 3, "4": 5}),
    ('{"a" = 1, "b" = "x = y"}', {"a": 1, "b": "x = y"}),
    ("{“a”: “x, y”, “b”: 2}", {"a": "x, y", "b": 2}),
    ('{"a": 1 // one\n, "b": 2 /* two " */, "c": 3 # three\n}', {"a": 1, "b": 2, "c": 3}),
    ('{"a": +5, "b": .5, "c": -.5e1}', {"a": 5, "b": 0.5, "c": -5.0}),
    ('{"a": 1\n "b": 2}', {"a": 1, "b": 2}),
    ('{"a": [1\n2\n3]}', {"a": [1, 2, 3]}),
    ('{"a": [{"b": 1} {"b": 2}]}', {"a": [{"b": 1}, {"b": 2}]}),
    ('{"a": "line\nbreak\tand tab"}', {"a": "line\nbreak\tand tab"}),
    ('{"a": "C:\\dir\\sub"}', {"a": "C:\\dir\\sub"}),
    ('{"a": "\\(x^2\\)"}', {"a": "\\(x^2\\)"}),
    ('{"a": "say "hi" to"}', {"a": 'say "hi" to'}),
    ('{"a": "He said "hi", then left", "b": 1}', {"a": 'He said "hi", then left', "b": 1}),
    ('{\u00a0"a": 1,\u00a0"b": 2}', {"a": 1, "b": 2}),
    ('{\\n "a": 1,\\n "b": 2\\n}', {"a": 1, "b": 2}),
    ("{'a': 'it's fine'}", {"a": "it's fine"}),
    ("{'a': '\\x41'}", {"a": "A"}),
    ('{"a": `x`}', {"a": "x"}),
]

REFUSED = [
    '{"a": NaN}',
    '{"a": Infinity, "b": 1}',
    '{"a": undefined}',
    '{"a": 1/6}',
    '{"a": 50%}',
    '{"a": 007}',
    '{"a": 0x1F}',
    "{'a': 1_000}",
    '{"a": 5.}',
    '{"a": 1,000}',
    '{"a": [1, 2, ...]}',
    '{"a": word}',
    '{"a": TRUE}',
    "{'a': {1, 2}}",
    "{'a': 'x' 'y'}",
    "{'a': ['x'\n'y']}",
    "{'a': 'x' + 'y'}",
    "{'a': b'x'}",
    "{'a': 1+2j}",
    "{1: 2, 1: 3,}",
    '{"a": 1, "a": 2}',
    '{"a": 1, "a": 2,}',
    "{'a': 1, 'a': 2}",
    '{"a" 1}',
    '{"a": 1,, "b": 2}',
    '{, "a": 1}',
    '{"a": [1 2]}',
    '{"a": 1"b": 2}',
    '{"a": "C:\\dir\\new"}',
    '{"a": "\\d", "b": "C:\\temp"}',
    '{"a": "\\x41 \\d"}',
    '["y"\\, "z"]',
    "{c': False}",
    '{"x: "y", z": 1,}',
    '{"a:\n b": 1}',
    '{"a": [1, 2}',
    '{"a": "x", "b"}',
    '{"a": "\\ud800"}',
    '{"a": 1e999}',
]


@pytest.mark.parametrize(("text", "value"), MENDED)
def test_it_is_mended(text: str, value: Any) -> None:
    verdict = check_output(text)

    assert isinstance(verdict, Completed)
    assert value == verdict.output
    assert json.dumps(value) == json.dumps(verdict.output), "also the kinds of numbers are equal"


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_not_made_into_a_value(text: str) -> None:
    assert isinstance(check_output(text), InvalidJson)


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "The year I liv"rating": 4, "slug": "the-year"}',
        '{"a": "x, "b": "y"}',
        '{"a": "5\'10" tall"}',
        "{'a': 'b}",
        '{"a": 1 /* two }',
        "{“a”: “x}",
    ],
)
def test_what_looks_cut_is_asked_for_again(text: str) -> None:
    """A string that lost its end is open; no mending may decide where it ended."""
    assert isinstance(check_output(text), TruncatedResponse)


@pytest.mark.parametrize("text", [text for text, _ in MENDED])
def test_every_cut_of_malformed_text_is_truncated_too(text: str) -> None:
    whole = check_output(text)
    assert isinstance(whole, Completed)
    for cut in range(1, len(text)):
        verdict = check_output(text[:cut])
        assert not isinstance(verdict, Completed), text[:cut]


def test_text_that_is_json_is_never_touched() -> None:
    text = '{"code": "with open(x) as f:\\n    pass", "n": 1E2, "url": "http://a//b", "q": "“”"}'
    verdict = check_output(text)

    assert isinstance(verdict, Completed)
    assert json.loads(text) == verdict.output
    assert ["strict"] == [step.name for step in verdict.steps]


@pytest.mark.parametrize("text", ['{"a": 1', '{"a": [1, "b"', '{"a": tru', '{"a": "b'])
def test_closers_are_never_added_by_default(text: str) -> None:
    assert isinstance(check_output(text), TruncatedResponse)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [true, "b"', {"a": [True, "b"]}),
        ('{"a": 1', None),
        ('{"a": "b', None),
        ('{"a": "b",', None),
        ('{"a": ', None),
        ('{"a": {"b": "c"}', {"a": {"b": "c"}}),
    ],
)
def test_closers_are_added_on_request_after_a_complete_token(text: str, value: Any) -> None:
    """A bare number may have lost digits (1000 became 100)."""
    verdict = check_output(text, accept_missing_closers=True)

    assert (value is not None) == isinstance(verdict, Completed)
    assert value is None or value == verdict.output  # type: ignore[union-attr]


def test_closers_are_added_only_if_the_model_stopped_by_itself() -> None:
    for reason in ("tool_calls", None):
        verdict = check_output('{"a": "b"', finish_reason=reason, accept_missing_closers=True)
        assert isinstance(verdict, TruncatedResponse)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=15)
objects = st.dictionaries(
    st.from_regex(r"[a-z]\w{0,6}", fullmatch=True),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip
STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"')


@settings(max_examples=150)
@given(value=objects)
def test_python_text_comes_back_equal(value: dict[str, Any]) -> None:
    verdict = check_output(repr(value))

    assert not isinstance(verdict, Completed) or value == verdict.output


@settings(max_examples=200)
@given(value=objects, data=st.data())
def test_a_lost_or_stray_sign_never_changes_content(
    value: dict[str, Any], data: st.DataObject
) -> None:
    """One bracket, quote, comma or colon gone, or one too many, outside of strings."""
    text = json.dumps(value, ensure_ascii=False)
    hidden = STRUCTURE.sub(lambda m: '"' + " " * (len(m[0]) - 2) + " ", text)
    at = data.draw(st.sampled_from([i for i, char in enumerate(hidden) if char in '{}[]",:']))
    stray = data.draw(st.sampled_from(["", '"', "'", ",", ":", "{", "}", "[", "]", "\n", "="]))
    broken = text[:at] + (stray + text[at:] if stray else text[at + 1 :])
    verdict = check_output(broken)

    if isinstance(verdict, Completed) and verdict.steps[0].name not in ("strict", "surplus_closer"):
        assert value == verdict.output or (not stray and text[at] in ",[]")


@settings(max_examples=200)
@given(value=objects, data=st.data())
def test_the_respelling_conserves_by_its_nature(value: dict[str, Any], data: st.DataObject) -> None:
    """It is not checked at run time; here the walk beside the candidate agrees with it."""
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1])), ensure_ascii=False)
    for sloppy in (
        text.replace(",\n", "\n"),
        text.replace('": ', '" = '),
        text[:-1] + ",}",
        text.replace("\\n", "\n"),
        text.replace('\\"', '"'),
        text.replace('"', "'"),
        repr(value),
    ):
        verdict = check_output(sloppy)
        if isinstance(verdict, Completed) and verdict.steps[-1].name == "respelled":
            assert conserves(sloppy, verdict.output), sloppy


def test_an_apostrophe_within_a_word_is_part_of_it() -> None:
    sloppy = "{'a': {'0'_': null}}"

    verdict = check_output(sloppy)

    assert isinstance(verdict, Completed)
    assert {"a": {"0'_": None}} == verdict.output
    assert conserves(sloppy, verdict.output)


def test_conservation_sees_what_was_added_dropped_changed_or_moved() -> None:
    candidate = '{"a": "say "hi" to", b: [1, 2,], "c": {"d": True}}'
    value = {"a": 'say "hi" to', "b": [1, 2], "c": {"d": True}}

    assert conserves(candidate, value)
    for other in (
        {**value, "e": 1},
        {"a": value["a"], "b": [1, 2]},
        {**value, "b": [1, 3]},
        {**value, "b": [1, 2.0]},
        {**value, "b": [[1, 2]]},
        {**value, "a": "say hi to"},
        {**value, "c": {"d": "True"}},
        {"b": value["b"], "a": value["a"], "c": value["c"]},
    ):
        assert not conserves(candidate, other)
