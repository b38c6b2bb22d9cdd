"""`mulligan tail [RUN]`: events as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

import click

from mulligan.client import Client
from mulligan.commands.live import lines
from mulligan.commands.printing import show_json
from mulligan.errors import InvalidInput
from mulligan.events.codec import line
from mulligan.events.deltas import Delta
from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore
from mulligan.feed import (
    FeedReading,
    Gap,
    Reference,
    SetBack,
    Unreadable,
    events_of,
    wait_ms,
)
from mulligan.projections.live import Void

Line = Envelope | Gap | SetBack | Unreadable | Delta | Void


@click.command()
@click.argument("run", required=False)
@click.option("--from", "start", metavar="ID", help="Begin after the event of this id or version.")
@click.option("--follow", is_flag=True, help="Wait for more; of one run, until it has ended.")
@click.option(
    "--deltas", is_flag=True, help="With RUN and --follow: also what models say, as they say it."
)
@click.option("--json", "as_json", is_flag=True, hidden=True, help="Lines are JSON in any case.")
def tail(run: str | None, start: str | None, follow: bool, deltas: bool, as_json: bool) -> None:
    """
    Print events as JSON lines: those of one run, or of all in the order they were appended. What
    was trimmed off the feed is a line of type `gap`, a server that was set back one of type
    `set_back`, what this version can't read one of type `unreadable`.

    With --deltas, lines of type `delta` hold what a model says while it says it, candidates that
    nobody has judged among it, and lines of type `void` take back what was cut off or rejected.
    None of that is stored anywhere.
    """
    if deltas and (run is None or not follow):
        raise InvalidInput("--deltas shows a run while it is worked: tail RUN --follow --deltas")
    with Client() as client:
        if run is None:
            events: Iterator[Line] = _of_all(client.store, start, follow)
        elif deltas:
            events = lines(client, run, _version(client, run, start))
        else:
            events = client.events(run, _version(client, run, start), follow=follow)
        for event in events:
            show_json(line(event) if isinstance(event, Envelope) else event)


def _version(client: Client, run: str, start: str | None) -> int:
    if start is None:
        return 0
    if start.isdecimal():
        return int(start)
    for event in client.events(run):
        if event.id == start:
            return event.version
    raise InvalidInput(f"run {run!r} has no event {start!r}; --from takes an event's id or version")


def _of_all(
    store: EventStore, start: str | None, follow: bool
) -> Iterator[Envelope | Gap | SetBack | Unreadable]:
    """
    Every run's events, as the feed refers to them; `start` is an event's id. What was trimmed off
    the feed is a `Gap`, what can't be read an `Unreadable`, a feed that was set back a `SetBack`.
    """
    seen = start is None
    reading = FeedReading(store)
    wait = wait_ms(len(reading.places)) if follow else 0
    moved = True
    while moved or follow:
        moved = False
        for found in reading.turn(wait):
            moved = True
            if not isinstance(found, Reference):
                yield found
                continue
            for event in events_of(store, found.entry):
                if seen:
                    yield event
                seen = seen or (isinstance(event, Envelope) and event.id == start)
    if not seen:
        raise InvalidInput(f"there is no event {start!r}; --from takes an event's id")
