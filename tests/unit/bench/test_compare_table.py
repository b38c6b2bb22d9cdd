"""The table of the benchmark says what was measured, and calls a goal met only where it is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[3] / "bench"


def load(name: str) -> ModuleType:
    """A module of bench/, which is a folder of scripts and no package."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compared = load("compare_table")
contender = load("contender")
OURS = compared.Measured("chain", "mulligan", "ms", [1.0, 2.0, 10.0])
OTHER = compared.Measured("chain", "other", "ms", [4.0, 8.0, 20.0])


def test_ratios_are_taken_round_by_round() -> None:
    """A round in which the machine was slow slowed both."""
    assert 4.0 == compared.ratio(OTHER, OURS)


def test_a_line_has_median_spread_and_ratio() -> None:
    text = compared.table([OURS, OTHER], "mulligan")

    assert "| chain | other | 8 ms | 4 to 20 | 4.00 |" in text


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({"least": 4}, "met"),
        ({"least": 5}, "missed"),
        ({"most": 0.25}, "met"),
        ({"most": 0.2}, "missed"),
    ],
)
def test_a_goal_is_met_only_if_it_is(bounds: dict[str, float], verdict: str) -> None:
    goal = compared.Goal("chain", "mulligan", "other", **bounds)

    assert compared.verdicts([OURS, OTHER], [goal]).endswith(f"| {verdict} |")


def test_a_goal_that_was_not_measured_is_not_judged() -> None:
    goal = compared.Goal("chain", "mulligan", "nobody", most=1)

    assert "nobody" not in compared.verdicts([OURS, OTHER], [goal])


@pytest.mark.parametrize(("share", "figure"), [(0.5, 5), (0.99, 10), (0.0, 1)])
def test_a_percentile_is_one_of_the_figures(share: float, figure: int) -> None:
    assert figure == compared.percentile(list(range(1, 11)), share)


def test_a_contender_that_ends_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(contender.ContenderEnded, match="not enough values"):
        contender.Contender(Path(sys.executable), "sqlite_floor", [], log=log)


def test_a_contender_measures_what_it_is_told(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "db"), "NORMAL"]
    with contender.Contender(
        Path(sys.executable), "sqlite_floor", arguments, log=tmp_path / "log"
    ) as floor:
        (seconds,) = floor.measure("chain", steps=2, chains=1)

    assert seconds > 0
