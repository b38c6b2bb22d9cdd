"""Which level comes next (RPR-5, RPR-6), over its whole input space."""

from __future__ import annotations

from itertools import product

import pytest

from mulligan.decisions.levels import affordable, estimate_usd, pick_level
from mulligan.projections.state import LevelTried
from mulligan.quality.report import Fix, Gate, Quality, judged
from mulligan.schemas.plan import CodeRef, PluginPlan, RepairPlan


def quality(sections: int = 1, slop: float | None = None) -> Quality:
    """A failing report with repairs in so many sections."""
    gates = {"words": gate()} if slop is None else {"slop": gate(slop), "words": gate()}
    repairs = [
        Fix(gate="words", kind="length", instruction="shorter", section=f"s{number}")
        for number in range(sections)
    ]
    return judged(gates, repairs)


def gate(metric: float = 30.0) -> Gate:
    return Gate(passed=False, score=50.0, metric=metric, direction="lower", threshold=20.0)


def tried(*levels: tuple[int, float | None]) -> list[LevelTried]:
    return [LevelTried(level=level, improvement=by) for level, by in levels]


def test_rpr_5_the_first_failure_is_repaired_surgically() -> None:
    assert pick_level(quality(9, slop=99), []) == 1


IMPROVEMENTS = (-5.0, 0.0, 2.99, 3.0, 3.01, 50.0, None)


@pytest.mark.parametrize(
    ("level", "improvement", "sections"), list(product(range(1, 6), IMPROVEMENTS, (0, 3, 4)))
)
def test_rpr_5_what_follows_a_level(level: int, improvement: float | None, sections: int) -> None:
    """Every level x improvement below, at and above 3, or passed over x problem sections."""
    picked = pick_level(quality(sections), tried((level, improvement)))

    if improvement is None:
        assert picked == (level + 1 if level < 5 else None)
    elif level == 1:
        assert picked == (1 if improvement >= 3 else 2)
    elif level == 2:
        assert picked == (3 if sections > 3 else 2)
    else:
        assert picked == {3: 4, 4: 5, 5: None}[level]


def test_rpr_5_sections_are_rewritten_twice_at_most() -> None:
    assert pick_level(quality(1), tried((1, 0.0), (2, 9.0), (2, 9.0))) == 3


def test_rpr_6_a_level_passed_over_does_not_count_as_a_rewrite() -> None:
    assert pick_level(quality(1), tried((1, None), (2, 1.0))) == 2


@pytest.mark.parametrize(
    ("slop", "vetoes", "level"),
    [(60.9, 0, 1), (61, 0, 3), (80, 0, 3), (80.1, 0, 4), (None, 1, 1), (None, 2, 3), (90, 2, 4)],
)
def test_rpr_6_start_rules_begin_higher_only_when_switched_on(
    slop: float | None, vetoes: int, level: int
) -> None:
    report = quality(1, slop)

    assert pick_level(report, [], start_rules=True, vetoes=vetoes) == level
    assert pick_level(report, [], vetoes=vetoes) == 1


def test_rpr_9_estimates_are_the_differences_of_the_cumulative_ones() -> None:
    code = PluginPlan(call=CodeRef(path="a:b", digest=""), arguments=())
    plan = RepairPlan(draft="input", gates=code, rework=code)

    estimates = [round(estimate_usd(plan, level), 9) for level in range(1, 6)]

    assert estimates == [0.10, 0.15, 0.25, 1.00, 1.00]
    assert sum(estimates) == pytest.approx(plan.budget_usd)


@pytest.mark.parametrize(("spent", "estimate", "may"), [(2.4, 0.1, True), (2.4, 0.11, False)])
def test_rpr_9_a_round_that_could_exceed_the_budget_is_not_started(
    spent: float, estimate: float, may: bool
) -> None:
    code = PluginPlan(call=CodeRef(path="a:b", digest=""), arguments=())
    plan = RepairPlan(draft="input", gates=code, rework=code)

    assert affordable(plan, spent, estimate) is may
