"""What a producer can't hand in, whatever the annotations say: refused before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.asked import (
    LONGEST_TAG,
    MOST_TAGS,
    check_delay,
    check_json,
    check_priority,
    check_run_id,
    check_tags,
    check_window,
    check_words,
)
from mulligan.errors import InvalidInput
from mulligan.events.prepared import LONGEST_DELAY_MS

circular: list[Any] = []
circular.append(circular)


@pytest.mark.parametrize("priority", [True, 1.0, 2, "0", None, []])
def test_a_priority_that_could_not_be_read_back(priority: object) -> None:
    with pytest.raises(InvalidInput, match=r"use -1 \(first\)"):
        check_priority(priority)


@pytest.mark.parametrize("tags", ["daily", None, 5, b"x", (1,), ("",), ("a\n",), ("\ud800",)])
def test_tags_that_are_none(tags: object) -> None:
    """A string would be taken for its letters, and the run for one that nobody can read."""
    with pytest.raises(InvalidInput, match="tag"):
        check_tags(tags)


def test_tags_are_few_and_short_and_kept_in_order() -> None:
    assert check_tags(["b", "a b"]) == ("b", "a b")
    assert len(check_tags(["x" * LONGEST_TAG] * MOST_TAGS)) == MOST_TAGS
    with pytest.raises(InvalidInput, match="101 tags"):
        check_tags(["x"] * (MOST_TAGS + 1))
    with pytest.raises(InvalidInput, match="200"):
        check_tags(["x" * (LONGEST_TAG + 1)])


@pytest.mark.parametrize(
    "delay_ms", [-1, 0.5, float("nan"), float("inf"), True, "5", None, LONGEST_DELAY_MS + 1]
)
def test_a_delay_that_no_server_could_count(delay_ms: object) -> None:
    with pytest.raises(InvalidInput, match="whole milliseconds"):
        check_delay(delay_ms)
    check_delay(LONGEST_DELAY_MS)


@pytest.mark.parametrize("words", [None, 5, b"x", "\udcff", "four!"])
def test_words_that_can_not_be_kept(words: object) -> None:
    with pytest.raises(InvalidInput, match=r"the reason .*(is not UTF-8 text|use up to 4)"):
        check_words("the reason", words, 4)
    check_words("the reason", "\x00ä\n", 4)


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "\x1b[31m", "a\x00", "\u202eb", 5, b"a"])
def test_a_run_id_that_would_harm_the_log_or_a_terminal(run_id: object) -> None:
    with pytest.raises(InvalidInput, match="run's id"):
        check_run_id(run_id)
    check_run_id("order-17.ä")


@pytest.mark.parametrize(
    "given", [float("nan"), {"a": [float("inf")]}, object(), circular, "\ud800", {1: 2}]
)
def test_an_input_that_json_does_not_have(given: object) -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        check_json(given)


@pytest.mark.parametrize("given", [None, {"a": None, "b": [1.5, "null", 2**70]}, (1, 2)])
def test_an_input_that_it_has(given: object) -> None:
    check_json(given)


@pytest.mark.parametrize("window", ["", "a\nb", "x" * 201, 5])
def test_what_can_be_no_window_is_refused(window: object) -> None:
    with pytest.raises(InvalidInput, match="mulligan browser"):
        check_window(window)
    check_window("main")
    check_window(None)


def test_a_run_can_not_be_named_as_schedules_are() -> None:
    with pytest.raises(InvalidInput, match="how schedules are named"):
        check_run_id("schedule:nightly")
