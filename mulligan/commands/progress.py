"""
A run as it goes on, on standard error: a live table in a terminal, a line an event elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from mulligan.commands.trace import line
from mulligan.events.envelope import Envelope
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState
from mulligan.projections.trace import Trace
from mulligan.projections.trace import evolve as evolve_trace

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

LINES = 12
"""Trace lines shown under the live table, each cut to the terminal's width."""

_MARKS = {
    "pending": "[dim]·[/]",
    "ready": "[cyan]○[/]",
    "running": "[cyan]●[/]",
    "retrying": "[yellow]↻[/]",
    "paused": "[yellow]‖[/]",
    "completed": "[green]✓[/]",
    "failed": "[red]✗[/]",
    "cancelled": "[red]✗[/]",
    "skipped": "[dim]-[/]",
}


class Progress:
    """Takes a run's events as they come; `note` adds a word of its own."""

    def __init__(self, run: str, live: Live | None) -> None:
        self._live = live
        self._state = RunState(run=run)
        self._trace = Trace(run=run)
        self._lines: list[str] = []

    def seen(self, event: Envelope) -> None:
        """Show one more event."""
        evolve(self._state, event)
        evolve_trace(self._trace, event)
        self._add(line(self._trace.steps[-1], 10))

    def note(self, text: str) -> None:
        """Show something that is no event."""
        self._add(f"          ---  {text}")

    def _add(self, text: str) -> None:
        if self._live is None:
            click.echo(text, err=True)
            return
        self._lines = [*self._lines, text][-LINES:]
        self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False)
        for node in self._state.nodes.values():
            table.add_row(_MARKS[node.status], Text(node.id), node.status)
        lines = (Text(line, no_wrap=True, overflow="ellipsis") for line in self._lines)
        return Group(Text(f"{self._state.run}  {self._state.status}", "bold"), table, *lines)


@contextmanager
def progress(run: str) -> Iterator[Progress]:
    """Show a run's progress within this context."""
    if not sys.stderr.isatty():
        yield Progress(run, None)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield Progress(run, live)
