"""
What `bench/compare.py` measured: the figures, and the table of them in Markdown and as JSON.

Less is better in every row: where others speak of steps or events a second, the table has the time
that one takes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

OURS = "mulligan"


@dataclass
class Measured:
    """Figures of one contender in one row: one for each round, in the order of the rounds."""

    row: str
    contender: str
    unit: str
    figures: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.figures)

    def as_json(self) -> dict[str, Any]:
        """For programs; figures by round."""
        named = {"row": self.row, "contender": self.contender, "unit": self.unit}
        found = {"median": self.median, "least": min(self.figures), "most": max(self.figures)}
        return {**named, **found, "figures": self.figures}


class Figures:
    """All that was measured so far, in the order of its rows."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str], Measured] = {}

    def keep(self, row: str, contender: str, unit: str, figure: float) -> None:
        """One round's figure of a contender in a row."""
        measured = self._all.setdefault((row, contender), Measured(row, contender, unit))
        measured.figures.append(figure)

    def measured(self) -> list[Measured]:
        """Rows in the order in which they came, each whole."""
        rows = list(dict.fromkeys(row for row, _ in self._all))
        return sorted(self._all.values(), key=lambda one: rows.index(one.row))


@dataclass(frozen=True)
class Goal:
    """
    How many times another's figure ours shall be at most (`most`), or another's ours at least
    (`least`), in the median of the rounds. Without another, the most that ours itself may be, in
    the row's unit.
    """

    row: str
    ours: str
    other: str | None = None
    most: float | None = None
    least: float | None = None

    def judged(self, measured: Sequence[Measured]) -> Verdict | None:
        """Whether it is met; None if it was not measured."""
        ours = _found(measured, self.row, self.ours)
        if ours is None:
            return None
        if self.other is None:
            assert self.most is not None
            wanted = f"at most {self.most:g} {ours.unit}"
            return Verdict(self, wanted, ours.median, met=ours.median <= self.most)
        other = _found(measured, self.row, self.other)
        if other is None:
            return None
        if self.most is not None:
            is_so = ratio(ours, other)
            return Verdict(
                self, f"at most {self.most:g} times {self.other}", is_so, met=is_so <= self.most
            )
        assert self.least is not None
        is_so = ratio(other, ours)
        wanted = f"at least {self.least:g} times faster than {self.other}"
        return Verdict(self, wanted, is_so, met=is_so >= self.least)


@dataclass(frozen=True)
class Verdict:
    """What a goal asked for, in words, and what was found."""

    goal: Goal
    wanted: str
    found: float
    met: bool

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        named = {"row": self.goal.row, "contender": self.goal.ours, "goal": self.wanted}
        return {**named, "found": self.found, "met": self.met}


def ratio(upper: Measured, lower: Measured) -> float:
    """The median of the ratios, round by round: what slows the machine slows both."""
    pairs = zip(upper.figures, lower.figures, strict=True)
    return statistics.median(one / other for one, other in pairs)


def percentile(figures: Sequence[float], share: float) -> float:
    """The smallest figure that so large a share of all does not exceed."""
    return sorted(figures)[max(0, math.ceil(share * len(figures)) - 1)]


def table(measured: Iterable[Measured]) -> str:
    """A line for each contender; ratios are to ours of the same row."""
    all_of = list(measured)
    lines = [
        "| row | contender | median | least to most | beside ours |",
        "|---|---|--:|--:|--:|",
    ]
    for one in all_of:
        ours = _found(all_of, one.row, OURS)
        beside = _ratio_told(one, ours)
        spread = f"{short(min(one.figures))} to {short(max(one.figures))}"
        median = f"{short(one.median)} {one.unit}"
        lines.append(f"| {one.row} | {one.contender} | {median} | {spread} | {beside} |")
    return "\n".join(lines)


def summary(measured: Iterable[Measured]) -> str:
    """A line for each row: ours, and how many times that the others take."""
    all_of = list(measured)
    lines = ["| | mulligan | others |", "|---|--:|---|"]
    for row, group in groupby(all_of, key=lambda one: one.row):
        contenders = list(group)
        ours = next((one for one in contenders if one.contender == OURS), None)
        others = "; ".join(_beside(one, ours) for one in contenders if one is not ours)
        lines.append(f"| {row} | {_told(ours) if ours is not None else ''} | {others} |")
    return "\n".join(lines)


def _told(one: Measured) -> str:
    spread = f"{short(min(one.figures))}–{short(max(one.figures))}"
    return f"{short(one.median)} {one.unit} ({spread})"


def _beside(one: Measured, ours: Measured | None) -> str:
    beside = _ratio_told(one, ours)
    if not beside:
        return f"{one.contender} {_told(one)}"
    return f"{one.contender} {short(one.median)} ({beside} times)"


def judged(measured: Sequence[Measured], goals: Iterable[Goal]) -> Iterator[Verdict]:
    """A verdict for each goal whose contenders were measured."""
    for goal in goals:
        verdict = goal.judged(measured)
        if verdict is not None:
            yield verdict


def verdicts(found: Iterable[Verdict]) -> str:
    """A line for each goal."""
    lines = ["| goal | measured | |", "|---|--:|---|"]
    for one in found:
        told = "met" if one.met else "missed"
        wanted = f"{one.goal.row}: {one.goal.ours} {one.wanted}"
        lines.append(f"| {wanted} | {short(one.found)} | {told} |")
    return "\n".join(lines)


def short(figure: float) -> str:
    """Three digits, no exponents."""
    return f"{figure:.3g}" if figure < 1_000 else f"{figure:.0f}"


def _ratio_told(one: Measured, ours: Measured | None) -> str:
    """Another's ratio to ours, if both were measured round by round."""
    if ours is None or ours is one or len(ours.figures) != len(one.figures):
        return ""
    return short(ratio(one, ours))


def _found(measured: Iterable[Measured], row: str, contender: str) -> Measured | None:
    return next((one for one in measured if (one.row, one.contender) == (row, contender)), None)
