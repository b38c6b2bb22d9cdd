"""
Which level a repair goes on at, and whether it may: pure rules over what was tried (RPR-5, RPR-9).

    1 surgical   2 section rewrite   3 stage rewrite   4 full regeneration   5 from scratch
"""

from __future__ import annotations

from collections.abc import Sequence

from mulligan.projections.state import LevelTried
from mulligan.quality.report import Quality
from mulligan.schemas.plan import RepairPlan

SURGICAL, SECTION, STAGE, FULL, SCRATCH = 1, 2, 3, 4, 5

ENOUGH = 3.0
"""Points by which a surgical round has to improve its gate to be followed by another."""
FEW_SECTIONS = 3
"""Up to so many problem sections are rewritten one by one."""
SLOP_GATE = "slop"
"""The gate whose metric may let a repair start higher, where the workflow says so (RPR-6)."""


def pick_level(
    quality: Quality,
    history: Sequence[LevelTried],
    *,
    start_rules: bool = False,
    vetoes: int = 0,
) -> int | None:
    """
    The level of the next round; None: there is none left.

    Args:
        quality: the report of the draft to repair.
        history: what was tried so far, in order.
        start_rules: whether a first repair may begin above the surgical level.
        vetoes: reasons for which a reviewer has rejected the draft.
    """
    if not history:
        return _first(quality, vetoes) if start_rules else SURGICAL
    last = history[-1]
    if last.improvement is None:
        return _above(last.level)
    if last.level == SURGICAL:
        return SURGICAL if last.improvement >= ENOUGH else SECTION
    if last.level == SECTION:
        again = _rounds_at(history, SECTION) < 2
        few = len(quality.problem_sections) <= FEW_SECTIONS
        return SECTION if few and again else STAGE
    return _above(last.level)


def _first(quality: Quality, vetoes: int) -> int:
    slop = quality.gates.get(SLOP_GATE)
    if slop is not None and not slop.passed and slop.metric > 80:
        return FULL
    if vetoes > 1 or (slop is not None and not slop.passed and slop.metric >= 61):
        return STAGE
    return SURGICAL


def _above(level: int) -> int | None:
    return level + 1 if level < SCRATCH else None


def _rounds_at(history: Sequence[LevelTried], level: int) -> int:
    return sum(one.level == level and one.improvement is not None for one in history)


def estimate_usd(plan: RepairPlan, level: int) -> float:
    """What a round at `level` may cost: the plan's cumulative estimates, less the level before."""
    until = plan.estimates_usd[level - 1]
    return until - plan.estimates_usd[level - 2] if level > 1 else until


def affordable(plan: RepairPlan, spent_usd: float, estimate: float) -> bool:
    """Whether a round may start; a millionth of a dollar is left to the arithmetic."""
    return spent_usd + estimate <= plan.budget_usd + 1e-6
