"""`mulligan tail [RUN]`: events as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.live import lines
from mulligan.commands.printing import show_json
from mulligan.errors import EventUnreadable, FeedTrimmed, InvalidInput
from mulligan.events.codec import line
from mulligan.events.deltas import Delta
from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore, FeedEntry
from mulligan.projections.live import Void

WAIT_MS = 1_000

TURN_MS = 50
"""A turn through several partitions with nothing new; so late an event is shown at most."""


def _wait_ms(partitions: int) -> int:
    """How long to wait at one partition: where there are others, not longer than a turn allows."""
    return WAIT_MS if partitions == 1 else max(TURN_MS // partitions, 1)


class Gap(msgspec.Struct, tag="gap", tag_field="type", kw_only=True, frozen=True):
    """
    A stretch of a partition's feed that was trimmed before it was read: references after the feed
    id `after`, through `through`. The runs that they named are whole; `tail RUN` shows them.
    """

    partition: int
    after: str
    through: str


class SetBack(msgspec.Struct, tag="set_back", tag_field="type", kw_only=True, frozen=True):
    """
    A partition's feed does not hold the reference `after`, the last that was printed: its server
    was set back (a failover, a restored file), and events that were printed may not have happened.
    All that the feed holds now is printed again from its beginning.
    """

    partition: int
    after: str


class Unreadable(msgspec.Struct, tag="unreadable", tag_field="type", kw_only=True, frozen=True):
    """
    Events of a run, after version `after` and through `through`, of which this version can't read
    one; `problem` says which, and what to do.
    """

    run: str
    after: int
    through: int
    problem: str


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
    last: dict[int, FeedEntry] = {}
    places = dict.fromkeys(range(store.partitions()), "0")
    while True:
        moved = False
        for partition, after in places.items():
            wait_ms = _wait_ms(len(places)) if follow else 0
            try:
                entries = store.feed(partition, after, wait_ms=wait_ms)
            except FeedTrimmed as gap:
                moved, places[partition] = True, gap.trimmed
                last.pop(partition, None)
                yield Gap(partition=partition, after=after, through=gap.trimmed)
                continue
            # Asked after the read: what a feed set back holds instead is not mixed with the rest.
            known = last.get(partition)
            if known is not None and _was_set_back(store, partition, known):
                del last[partition]
                moved, places[partition] = True, "0"
                yield SetBack(partition=partition, after=known.id)
                continue
            for entry in entries:
                moved, places[partition], last[partition] = True, entry.id, entry
                for event in _of(store, entry):
                    if seen:
                        yield event
                    seen = seen or (isinstance(event, Envelope) and event.id == start)
        if not moved and not follow:
            break
    if not seen:
        raise InvalidInput(f"there is no event {start!r}; --from takes an event's id")


def _was_set_back(store: EventStore, partition: int, known: FeedEntry) -> bool:
    """Whether a reference that was read is gone, or another, and not because it was trimmed."""
    found = store.feed_entry(partition, known.id)
    if found is not None:
        return found != known
    try:
        store.feed(partition, limit=1)
    except FeedTrimmed as gap:
        return gap.trimmed != known.id  # a trim beyond it would have been told as a gap
    return True


def _of(store: EventStore, entry: FeedEntry) -> list[Envelope] | list[Unreadable]:
    """The events that an entry of the feed refers to."""
    after = entry.version - entry.count
    try:
        return store.read(entry.run, after, limit=entry.count)
    except EventUnreadable as error:
        problem = str(error)
    return [Unreadable(run=entry.run, after=after, through=entry.version, problem=problem)]
