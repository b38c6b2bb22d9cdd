"""The scores of a repair loop by round, as a picture: in a terminal, or as SVG."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mulligan.projections.repair_log import RepairLog, RepairLogs

WIDTH, HEIGHT = 60, 14
"""Of the terminal's picture, in characters."""


def draw(logs: RepairLogs) -> None:
    """Print each loop's scores, round by round, 0 being the draft before any repair."""
    import plotext

    for log in logs.loops:
        rounds, scores = _points(log)
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(WIDTH, HEIGHT)
        plotext.title(f"{log.node}: overall score by round")
        plotext.ylim(0, 100)
        plotext.xticks(sorted(set(rounds)))
        plotext.plot(rounds, scores, marker="braille")
        plotext.scatter(rounds, scores, marker="●")
        click.echo(plotext.build())
        click.echo(_spent(log))


def write_svg(logs: RepairLogs, path: Path) -> None:
    """
    Write the scores of a run's loops, and what was spent until each round, as one SVG.

    Raises OSError where the file can't be written.
    """
    pygal, style = _pygal()
    chart = pygal.XY(
        js=[],
        no_prefix=True,
        style=style,
        range=(0, 100),
        title=f"{logs.run}: overall score by round of repair",
        x_title="round (0: before repair)",
        y_title="score",
        x_labels=sorted({point for log in logs.loops for point in _points(log)[0]}),
    )
    for log in logs.loops:
        rounds, scores = _points(log)
        levels = {one.iteration: f"level {one.level}" for one in log.iterations}
        points = [
            {"value": (at, score), "label": levels.get(at, "before repair")}
            for at, score in zip(rounds, scores, strict=True)
        ]
        chart.add(f"{log.node} ({_spent(log)})", points)
    path.write_bytes(chart.render())


def _pygal() -> tuple[Any, Any]:
    """pygal and its plain style, without the import hook for plug-ins that it leaves behind."""
    import pygal
    from pygal.style import CleanStyle

    sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "pygal"]
    return pygal, CleanStyle


def _points(log: RepairLog) -> tuple[list[int], list[float]]:
    """Rounds and scores; a draft that a person handed in counts one further."""
    rounds = [one.iteration + one.taken_over for one in log.assessments]
    return rounds, [one.overall_score for one in log.assessments]


def _spent(log: RepairLog) -> str:
    known = sum(one.cost_usd or 0.0 for one in log.iterations)
    unknown = sum(one.cost_usd is None for one in log.iterations)
    if not unknown:
        return f"${known:.4f} spent"
    estimated = sum(one.estimate_usd for one in log.iterations if one.cost_usd is None)
    return f"${known:.4f} known, {unknown} rounds unknown (estimated ${estimated:.2f})"
