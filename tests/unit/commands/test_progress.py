"""
The live view of a run: legible in any terminal.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.live import Live

from mulligan.commands.progress import Progress
from mulligan.commands.trace import line
from mulligan.events.facts import FACTS
from mulligan.projections.trace import TraceStep


@pytest.mark.parametrize("width", [100, 40])
def test_a_line_of_the_run_is_one_line_of_the_terminal(width: int) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width, height=20, color_system=None)
    told = "a worker process starts; it will be killed at its second request to the model"
    with Live(console=console, auto_refresh=False) as live:
        Progress("demo-1", live).note(told)

    shown = [line for line in screen.getvalue().splitlines() if "a worker" in line]
    assert shown, screen.getvalue()
    assert all(len(line.rstrip()) >= width - 10 for line in shown), shown
    if width == 40:
        assert all("…" in line for line in shown)


def test_markup_in_what_is_shown_stays_text() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=20, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        Progress("demo-1", live).note("part[0] [red]")

    assert "part[0] [red]" in screen.getvalue()


def test_what_happened_is_told_in_one_column_whatever_its_name() -> None:
    steps = [
        TraceStep(version=1, at_ms=0, node="collect", attempt=1, type=name, text="told")
        for name in FACTS
    ]

    assert 1 == len({line(step, 10).index("told") for step in steps})
