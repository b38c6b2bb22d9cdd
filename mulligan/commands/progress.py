"""
A run as it goes on, on standard error: a live table in a terminal, a line an event elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from mulligan.commands.printing import legible
from mulligan.commands.trace import line
from mulligan.events.deltas import Delta
from mulligan.events.envelope import Envelope
from mulligan.events.facts import ModelAnswered
from mulligan.projections.live import Void
from mulligan.projections.phases import Phases
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState
from mulligan.projections.trace import Trace
from mulligan.projections.trace import evolve as evolve_trace

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

LINES = 12
"""Trace lines shown under the live table, each cut to the terminal's width."""

SPEECH_HEAD, SPEECH_TAIL = 60, 240
SPEECH = SPEECH_HEAD + SPEECH_TAIL
"""Characters shown of a response under way in a live view: whose it is, and its last words."""

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


Seen = Callable[[Envelope], None]


class Progress:
    """
    Takes a run's events as they come, and what models say meanwhile; `note` adds a word of its own.
    `also` is given each event after it was shown.
    """

    def __init__(self, run: str, live: Live | None, also: Seen = lambda _: None) -> None:
        self._live = live
        self._also = also
        self._state = RunState(run=run)
        self._trace = Trace(run=run)
        self._phases = Phases()
        self._lines: list[str] = []
        self._speech: dict[str, str] = {}

    def seen(self, event: Envelope) -> None:
        """Show one more event."""
        evolve(self._state, event)
        evolve_trace(self._trace, event)
        if isinstance(event.data, ModelAnswered):
            self._speech.pop(event.data.request_id, None)
        self._add(line(self._trace.steps[-1], 10))
        told = self._phases.take(self._state, event)
        if told is not None:
            self.note(told)
        self._also(event)

    def heard(self, delta: Delta) -> None:
        """Show more of a response: its last words in a terminal, a line a delta elsewhere."""
        if self._live is None:
            self._add(f"          ...  {_label(delta)}: {_one_line(delta.text)}")
            return
        said = self._speech.get(delta.request_id, f"{_label(delta)}: ") + _one_line(delta.text)
        self._speech[delta.request_id] = said
        self._live.update(self._drawn(), refresh=True)

    def void(self, void: Void) -> None:
        """Say that what was shown of a response counts for nothing."""
        self._speech.pop(void.request_id, None)
        after = f"; attempt {void.next_attempt} follows" if void.next_attempt is not None else ""
        self.note(f"{_label(void)} is void ({void.reason}): forget what it said{after}")

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
        speech = (
            Text(f"{said[:SPEECH_HEAD]}…{said[-SPEECH_TAIL:]}" if len(said) > SPEECH else said)
            for said in self._speech.values()
        )
        head = Text(f"{self._state.run}  {self._state.status}", "bold")
        return Group(head, table, *lines, *speech)


def _label(what: Delta | Void) -> str:
    """The attempt that something is of."""
    return f"{what.invocation} attempt {what.attempt} ({what.request_id})"


def _one_line(text: str) -> str:
    return legible(text).replace("\n", "\\n").replace("\t", "\\t")


@contextmanager
def progress(run: str, *, also: Seen = lambda _: None) -> Iterator[Progress]:
    """Show a run's progress within this context; `also` is given its events too."""
    if not sys.stderr.isatty():
        yield Progress(run, None, also)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield Progress(run, live, also)
