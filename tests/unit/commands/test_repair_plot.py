"""The scores of a repair loop as a picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from mulligan.commands.repair_plot import draw, write_svg
from mulligan.projections.repair_log import Assessment, Iteration, RepairLog, RepairLogs


def logs(*scores: float, cost: float | None = 0.25) -> RepairLogs:
    assessments = tuple(
        Assessment(
            iteration=at, draft="", passed=False, overall_score=score, vetoes=0, taken_over=False
        )
        for at, score in enumerate(scores)
    )
    iterations = tuple(
        Iteration(
            iteration=at,
            level=1,
            trigger="gate_failed",
            metric="slop",
            actions=(),
            score_before=0,
            score_after=0,
            duration_seconds=0,
            estimate_usd=0.1,
            cost_usd=cost,
            verdict="improved",
        )
        for at in range(1, len(scores))
    )
    log = RepairLog(run="r", node="repair", assessments=assessments, iterations=iterations)
    return RepairLogs(run="r", loops=(log,))


def test_a_terminal_shows_a_point_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    draw(logs(40, 55, 92))

    shown = capsys.readouterr().out
    assert shown.count("●") == 3
    assert "$0.5000 spent" in shown


def test_a_cost_that_is_not_known_is_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    draw(logs(40, 55, cost=None))

    assert "1 rounds unknown (estimated $0.10)" in capsys.readouterr().out


def test_the_svg_is_well_formed_and_runs_no_script(tmp_path: Path) -> None:
    write_svg(logs(40, 55, 92), tmp_path / "scores.svg")

    root = ElementTree.parse(tmp_path / "scores.svg").getroot()
    assert root.tag.endswith("svg")
    assert not [one for one in root.iter() if one.tag.endswith("script") and one.get("href")]
