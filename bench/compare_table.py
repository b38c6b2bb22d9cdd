"""
What `bench/compare.py` measured, as a table in Markdown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Goal:
    """
    How many times another's figure ours shall be at most (`most`), or another's ours at least
    (`least`), in the median of the rounds.
    """

    row: str
    ours: str
    other: str
    most: float | None = None
    least: float | None = None


def ratio(upper: Measured, lower: Measured) -> float:
    """The median of the ratios, round by round: what slows the machine slows both."""
    pairs = zip(upper.figures, lower.figures, strict=True)
    return statistics.median(one / other for one, other in pairs)


def percentile(figures: Sequence[float], share: float) -> float:
    """The smallest figure that so large a share of all does not exceed."""
    return sorted(figures)[max(0, math.ceil(share * len(figures)) - 1)]


def table(measured: Iterable[Measured], reference: str) -> str:
    """A line for each contender; ratios are to the `reference` of the same row."""
    all_of = list(measured)
    lines = [
        "| row | contender | median | least to most | beside ours |",
        "|---|---|--:|--:|--:|",
    ]
    for one in all_of:
        ours = _found(all_of, one.row, reference)
        beside = f"{ratio(one, ours):.2f}" if ours is not None else ""
        spread = f"{_short(min(one.figures))} to {_short(max(one.figures))}"
        median = f"{_short(one.median)} {one.unit}"
        lines.append(f"| {one.row} | {one.contender} | {median} | {spread} | {beside} |")
    return "\n".join(lines)


def verdicts(measured: Iterable[Measured], goals: Iterable[Goal]) -> str:
    """A line for each goal whose contenders were measured."""
    all_of = list(measured)
    lines = ["| goal | measured | |", "|---|--:|---|"]
    for goal in goals:
        ours = _found(all_of, goal.row, goal.ours)
        other = _found(all_of, goal.row, goal.other)
        if ours is None or other is None:
            continue
        if goal.most is not None:
            is_so, wanted = ratio(ours, other), f"at most {goal.most:g} times"
            met = is_so <= goal.most
        else:
            assert goal.least is not None
            is_so, wanted = ratio(other, ours), f"at least {goal.least:g} times faster than"
            met = is_so >= goal.least
        told = "met" if met else "missed"
        lines.append(f"| {goal.row}: {goal.ours} {wanted} {goal.other} | {is_so:.2f} | {told} |")
    return "\n".join(lines)


def _found(measured: Iterable[Measured], row: str, contender: str) -> Measured | None:
    return next((one for one in measured if (one.row, one.contender) == (row, contender)), None)


def _short(figure: float) -> str:
    return f"{figure:.3g}" if figure < 1_000 else f"{figure:.0f}"
