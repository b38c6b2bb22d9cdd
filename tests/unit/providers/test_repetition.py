"""Loops in responses: found soon, whatever the chunking, and never where repetition is rightful."""

from __future__ import annotations

import base64
import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.providers.repetition import LoopDetector, LoopWatch, Repetition

FOUND_WITHIN = 16 * 1024
RIGHTFUL = 8 * 1024


def prose(size: int, seed: int = 1) -> str:
    words = ["tea", "leaf", "water", "kettle", "steep", "cup", "green", "black", "and", "of"]
    rng = random.Random(seed)
    text = ""
    while len(text) < size:
        text += f"{rng.choice(words)}{rng.randrange(1000)} "
    return text[:size]


def bytes_until_found(prefix: str, unit: str, sizes: list[int]) -> int:
    """How many bytes of the loop were read, fed in pieces of these sizes."""
    loop = unit * (2 * FOUND_WITHIN // len(unit.encode()) + 1)
    text, at, turn = prefix + loop, 0, 0
    detector = LoopDetector()
    while at < len(text):
        piece = text[at : at + sizes[turn % len(sizes)]]
        at += len(piece)
        turn += 1
        if detector.feed(piece):
            return len(text[:at].encode()) - len(prefix.encode())
    raise AssertionError("not found")


@settings(max_examples=25)
@given(
    unit=st.text(min_size=1, max_size=512).filter(lambda text: text.isprintable()),
    before=st.integers(0, 6_000),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=5),
)
def test_rec16_a_loop_of_any_period_is_found_soon_for_any_chunking(
    unit: str, before: int, sizes: list[int]
) -> None:
    assert bytes_until_found(prose(before), unit, sizes) <= FOUND_WITHIN + max(sizes) * 4


@pytest.mark.parametrize("period", [1, 2, 3, 10, 63, 64, 65, 255, 256, 257, 511, 512])
@pytest.mark.parametrize("letters", ["abcdef ", "äöüß ", "茶葉水杯", "🍵🫖"])
def test_rec16_every_period_up_to_512_characters_is_found(period: int, letters: str) -> None:
    rng = random.Random(period)
    unit = "".join(rng.choice(letters) for _ in range(period))

    assert bytes_until_found(prose(777), unit, [1]) <= FOUND_WITHIN


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 4_000), min_size=1, max_size=8), loops=st.booleans())
def test_rec16_chunks_make_no_difference(sizes: list[int], loops: bool) -> None:
    text = prose(3_000) + ("so on, " * 1_900 if loops else prose(13_300, seed=2)) + prose(900)
    whole = LoopDetector()
    whole.feed(text)
    pieces = LoopDetector()
    at = 0
    for size in itertools.cycle(sizes):
        pieces.feed(text[at : at + size])
        at += size
        if at >= len(text):
            break

    assert loops == whole.found == pieces.found


def filled(unit: str, size: int = RIGHTFUL) -> str:
    return (unit * (size // len(unit) + 1))[:size]


LEGITIMATE = {
    "table of zeros": "| a | b |\n" + filled("| 0 | 0 |\n"),
    "array of equal objects": json.dumps([{"id": 0, "name": "", "tags": []}] * 220)[:RIGHTFUL],
    "list of numbers": json.dumps(list(range(9_000))),
    "list of zeros": filled("0, "),
    "base64 of zeros": base64.b64encode(bytes(6_100)).decode()[:RIGHTFUL],
    "base64 of noise": base64.b64encode(random.Random(3).randbytes(60_000)).decode(),
    "refrain": prose(2_000) + filled("Row, row, row your boat, gently down the stream.\n"),
    "code": filled("    values.append(None)\n") + prose(500),
    "ruler": filled("-"),
    "csv with a counter": "".join(f"{n};0;0;0;0;0;0;0;0\n" for n in range(4_000)),
    "poem with refrains": "".join(
        prose(200, seed=n) + "\n" + "And the kettle sings. " * 40 + "\n" for n in range(60)
    ),
    "indented json": json.dumps([{"n": n, "zero": 0} for n in range(900)], indent=8),
    "two stretches": filled("ab") + "\n" + filled("cd"),
}


@pytest.mark.parametrize("name", LEGITIMATE)
@pytest.mark.parametrize("size", [1, 5, 4_096])
def test_rec16_rightful_repetition_is_no_loop(name: str, size: int) -> None:
    text = prose(1_000) + LEGITIMATE[name] + prose(1_000, seed=4)
    detector = LoopDetector()
    for at in range(0, len(text), size):
        detector.feed(text[at : at + size])

    assert not detector.found


@pytest.mark.parametrize("unit", ["x", "ab", "0, ", "the end. " * 30])
@pytest.mark.parametrize("offset", [0, 1, 511, 1_023])
def test_rec16_eight_kib_of_exact_repetition_anywhere_is_no_loop(unit: str, offset: int) -> None:
    detector = LoopDetector()
    detector.feed(prose(offset) + filled(unit) + "!" + prose(5_000, seed=9))

    assert not detector.found


def test_rec16_a_tool_boundary_begins_anew() -> None:
    watch = LoopWatch()
    watch.feed("text", filled("loop ", 9_000))
    watch.restart()
    watch.feed("text", filled("loop ", 9_000))

    assert not watch.found


def test_rec16_the_detector_is_configurable() -> None:
    detector = LoopDetector(Repetition(max_period=8, min_repeats=3, min_bytes=1_024))

    assert detector.feed(filled("again ", 2_200))


@pytest.mark.parametrize("wrong", [{"max_period": 0}, {"min_repeats": 1}, {"min_bytes": 0}])
def test_rec16_settings_that_could_find_nothing_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Repetition(**wrong)
