"""
The port of a gate: a name and a function from a document and its rules to a finding.

A gate is `Callable[[Document, Rules], Finding | Unasked]`, pure and in linear time. Whoever has
another gate hands it to `judge` beside these, under a name of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Direction = Literal["higher", "lower"]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """
    A fault at a place. Lines and columns count from 1, columns in characters of the original line;
    a hit about a whole section or text stands at its first line.

    `suggestion` says what to do. Where words can do it, `before` is the source from the line on,
    found there once, and `after` is what may stand in its place: it passes the gates itself.
    """

    gate: str
    rule: str
    line: int
    column: int
    section: str
    message: str
    suggestion: str
    before: str | None = None
    after: str | None = None
    level_hint: int | None = None
    """the level of repair that it is for: 1 surgical, 2 section, 3 stage"""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a gate says. `metric` passes by `threshold` and `direction`; `score` is 0 to 100, higher
    is better, and moves with the faults.
    """

    passed: bool
    score: float
    metric: float
    direction: Direction
    threshold: float
    verdict: str
    hits: tuple[Hit, ...] = ()


class Unasked(msgspec.Struct, frozen=True):
    """The gate has nothing to go by here, and says what it would need."""

    because: str


def score_of(faults: float, half: float) -> float:
    """100 without a fault, 50 at `half`, and lower with each more, however many there are."""
    return 100 / (1 + faults / half)


def faultless(hits: Sequence[Hit], half: float, what: str, faults: float | None = None) -> Finding:
    """The finding of a gate that passes without a hit: its metric is their count."""
    count = len(hits)
    return Finding(
        passed=count == 0,
        score=score_of(count if faults is None else faults, half),
        metric=float(count),
        direction="lower",
        threshold=0,
        verdict=f"{what}: {count or 'none'}",
        hits=tuple(hits),
    )
