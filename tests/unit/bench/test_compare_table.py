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


def load_compare() -> ModuleType:
    """The command, whose modules lie beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        return load("compare")


compared = load("compare_table")
contender = load("contender")
OURS = compared.Measured("chain", "mulligan", "ms", [1.0, 2.0, 10.0])
OTHER = compared.Measured("chain", "other", "ms", [4.0, 8.0, 20.0])


def test_ratios_are_taken_round_by_round() -> None:
    """A round in which the machine was slow slowed both."""
    assert 4.0 == compared.ratio(OTHER, OURS)


def test_a_line_has_median_spread_and_ratio() -> None:
    text = compared.table([OURS, OTHER])

    assert "| chain | mulligan | 2 ms | 1 to 10 |  |" in text
    assert "| chain | other | 8 ms | 4 to 20 | 4 |" in text


def test_a_row_of_the_summary_has_ours_and_how_many_times_others_take() -> None:
    alone = compared.Measured("memory", "mulligan", "MB", [1.0])
    text = compared.summary([OURS, OTHER, alone])

    assert "| chain | 2 ms (1–10) | other 8 (4 times) |" in text
    assert "| memory | 1 MB (1–1) |  |" in text


def test_what_was_measured_another_number_of_times_has_no_ratio() -> None:
    more = compared.Measured("chain", "more", "ms", [1.0])

    assert "| chain | more | 1 ms | 1 to 1 |  |" in compared.table([OURS, more])


def test_rows_stay_in_their_order_and_whole() -> None:
    figures = compared.Figures()
    for row, contender in (("b", "x"), ("a", "x"), ("b", "y"), ("b", "x")):
        figures.keep(row, contender, "ms", 1.0)

    found = [(one.row, one.contender, len(one.figures)) for one in figures.measured()]
    assert [("b", "x", 2), ("b", "y", 1), ("a", "x", 1)] == found


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

    text = compared.verdicts(compared.judged([OURS, OTHER], [goal]))
    assert text.endswith(f"| {verdict} |")


@pytest.mark.parametrize(("most", "verdict"), [(2, "met"), (1.9, "missed")])
def test_a_goal_without_another_bounds_ours(most: float, verdict: str) -> None:
    (found,) = compared.judged([OURS], [compared.Goal("chain", "mulligan", most=most)])

    assert (verdict == "met", 2.0, f"at most {most:g} ms") == (found.met, found.found, found.wanted)


def test_a_goal_that_was_not_measured_is_not_judged() -> None:
    goal = compared.Goal("chain", "mulligan", "nobody", most=1)

    assert [] == list(compared.judged([OURS, OTHER], [goal]))


@pytest.mark.parametrize(("share", "figure"), [(0.5, 5), (0.99, 10), (0.0, 1)])
def test_a_percentile_is_one_of_the_figures(share: float, figure: int) -> None:
    assert figure == compared.percentile(list(range(1, 11)), share)


def test_the_readme_has_another_table_between_its_marks() -> None:
    comparing = load_compare()
    before = f"a\n{comparing.BEGIN}\nold\n{comparing.END}\nb"

    assert f"a\n{comparing.BEGIN}\nnew\n{comparing.END}\nb" == comparing.into_readme(before, "new")
    with pytest.raises(ValueError, match="README has no"):
        comparing.into_readme("no marks", "new")


def test_the_readme_has_a_place_for_the_table() -> None:
    comparing = load_compare()
    readme = (BENCH.parent / "README.md").read_text()

    assert readme == comparing.into_readme(readme, readme.split(comparing.BEGIN + "\n")[1].split(
        "\n" + comparing.END
    )[0])  # fmt: skip


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
