"""The arithmetic of REC-20, row by row."""

from __future__ import annotations

import pytest

from mulligan.providers.limits import (
    Window,
    default_cap,
    history_limit,
    margin,
    reserve,
    tokens_of,
)


@pytest.mark.parametrize(
    ("window", "max_output", "explicit", "wanted"),
    [
        (128_000, 64_000, None, 16_384),
        (128_000, 8_000, None, 8_000),
        (32_000, 64_000, None, 8_000),
        (3, 100, None, 1),
        (128_000, 64_000, 50_000, 50_000),
        (128_000, 64_000, 1, 1),
        (128_000, None, None, 16_384),
    ],
)
def test_rec20_the_reserve(
    window: int, max_output: int | None, explicit: int | None, wanted: int
) -> None:
    assert wanted == reserve(window, max_output, explicit)


@pytest.mark.parametrize(("window", "wanted"), [(1_000, 256), (5_120, 256), (128_000, 6_400)])
def test_rec20_the_margin(window: int, wanted: int) -> None:
    assert wanted == margin(window)


@pytest.mark.parametrize(
    ("window", "max_output", "fixed", "wanted"),
    [
        (128_000, 64_000, 1_000, 128_000 - 16_384 - 6_400 - 1_000),
        (4_000, 1_000, 3_000, 4_000 - 1_000 - 256 - 3_000),
        (None, 1_000, 0, None),
    ],
)
def test_rec20_the_planned_history(
    window: int | None, max_output: int, fixed: int, wanted: int | None
) -> None:
    assert wanted == history_limit(Window(window, max_output), None, fixed)


@pytest.mark.parametrize(
    ("window", "max_output", "fixed", "history", "wanted"),
    [
        (128_000, 64_000, 1_000, 500, 64_000),
        (128_000, 64_000, 1_000, 100_000, 128_000 - 6_400 - 1_000 - 100_000),
        (1_000, 500, 900, 100, 1),
        (None, 500, 0, 0, None),
        (1_000, None, 0, 0, None),
    ],
)
def test_rec20_the_default_cap_is_never_invented(
    window: int | None, max_output: int | None, fixed: int, history: int, wanted: int | None
) -> None:
    assert wanted == default_cap(Window(window, max_output), fixed, history)


@pytest.mark.parametrize(
    ("text", "wanted"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("茶", 1)]
)
def test_rec20_tokens_are_estimated_by_bytes(text: str, wanted: int) -> None:
    assert wanted == tokens_of(text)
