"""Conditions of `when:`: what they can say, and what they can't do."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.errors import ExpressionFailed
from mulligan.schemas.conditions import condition_problem, evaluate, references_of

VALUES = {
    "collect": {"items": [1, 2, 3], "title": "Tea", "n": 4, "keys": "own", "odd key": True},
    "fact-check": {"ok": True, "issues": []},
    "skipped": None,
    "input": {"lang": "en"},
}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("len(collect.items) > 2", True),
        ("collect.items and fact_check.ok", True),
        ("not fact_check.issues", True),
        ("fact_check.ok == true and collect.n != 4", False),
        ("'ea' in collect.title or collect.n < 0", True),
        ("2 in collect.items", True),
        ("5 not in collect.items", True),
        ("1 < collect.n < 5", True),
        ("collect.n * 2 + 1 == 9 and collect.n % 2 == 0 and collect.n / 8 == 0.5", True),
        ("collect.items[0] == 1 and collect.items[-1] == 3", True),
        ("collect.items[7]", False),
        ("collect['odd key']", True),
        ("collect.keys == 'own'", True),
        ("collect.absent == null", True),
        ("collect.absent.below is null", True),
        ("skipped.ok", False),
        ("skipped == None", True),
        ("input.lang in ['de', 'en']", True),
        ("'y' if collect.n else ''", True),
        ("collect.n\n  > 1", True),
        ("input.lang == 'a  b'", False),
    ],
)
def test_a_condition_speaks_of_earlier_outputs(expression: str, holds: bool) -> None:
    assert condition_problem(expression) is None
    assert holds is evaluate(expression, VALUES)


ATTACKS = [
    "().__class__.__bases__[0].__subclasses__()",
    "collect.__class__",
    "collect.title.__class__",
    "collect.title.format(collect)",
    "collect.title.upper()",
    "collect.items.append(1)",
    "collect.pop('n')",
    "2 ** 9",
    "9 ** 9 ** 9 ** 9",
    "1 << 999999999",
    "[x for x in collect.items]",
    "{x for x in collect.items}",
    "sum(x for x in collect.items)",
    "(lambda: 1)()",
    "lambda: 1",
    "open('/etc/passwd')",
    "__import__('os').system('true')",
    "eval('1')",
    "len.__self__",
    "len(collect, items)",
    "len(*collect.items)",
    "f'{collect}'",
    "(x := 1)",
    "collect.items[:]",
    "b'bytes'",
    "1j",
    "...",
    "{'a': 1}",
    "await collect",
    "x = 1",
    "1; 2",
    "",
    "(" * 300 + ")" * 300,
    "+".join(["1"] * 400),
    "9" * 1_001,
]


@pytest.mark.parametrize("expression", ATTACKS)
def test_everything_else_is_refused_before_it_is_evaluated(expression: str) -> None:
    assert condition_problem(expression) is not None
    with pytest.raises(ExpressionFailed):
        evaluate(expression, VALUES)


@pytest.mark.parametrize(
    "expression",
    [
        "'a' * 999999999",
        "collect.items * 999999999",
        "'%999999999d' % 1",
        "collect.title.format",
        "collect.title > 3",
        "collect.n / 0",
        "-collect.title",
        "nobody",
        "len(collect.n)",
        "[1] in collect",
    ],
)
def test_values_that_do_not_fit_are_an_error_of_the_condition(expression: str) -> None:
    assert condition_problem(expression) is None
    with pytest.raises(ExpressionFailed):
        evaluate(expression, VALUES)


def test_a_method_is_not_mistaken_for_a_key() -> None:
    assert evaluate("input.items == null and input.get == null", VALUES)


def test_the_largest_condition_over_large_values_ends_soon() -> None:
    values = {"a": "x" * 100_000}
    expression = "+".join(["a"] * 60) + " != ''"
    began = time.process_time()
    assert evaluate(expression, values)
    assert time.process_time() - began < 1


def test_numbers_stay_bounded_by_the_expression() -> None:
    assert evaluate("*".join(["9999999999"] * 60) + " > 0", {})


def test_values_are_not_changed() -> None:
    values = {"a": {"items": [1, [2]]}}
    assert evaluate("a.items + [3] == [1, [2], 3]", values)
    assert {"a": {"items": [1, [2]]}} == values


@given(st.text(alphabet="ab.()[]'\"<>=+-*/%! \nnotandrlei,:{}0123456789_", max_size=60))
def test_any_text_is_a_condition_or_has_a_problem(text: str) -> None:
    if condition_problem(text) is None:
        references_of(text)
        with suppress(ExpressionFailed):
            assert isinstance(evaluate(text, {"a": {"b": [1, "a", None]}}), bool)


def test_what_a_condition_refers_to_is_known() -> None:
    found = {one.text for one in references_of("len(a.b.c) > x['k'] and true and not y")}
    assert {"a.b.c", "x", "y"} == found
