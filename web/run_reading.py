"""
A run's events on from a place, with what else a reader has to be told, as records of a stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mulligan.errors import EventUnreadable, InvalidInput
from mulligan.events import facts
from mulligan.events.codec import line
from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore
from mulligan.feed import Unreadable
from mulligan.web.rings import Line
from mulligan.web.sse import record

PAGE = 100
"""Events read at once: what a client that takes nothing may hold here until it is cut off."""

_CLOSING = (facts.RunCompleted, facts.RunFailed, facts.RunCancelled)


class RunSetBack(msgspec.Struct, tag="run_set_back", tag_field="type", kw_only=True, frozen=True):
    """
    The run's log does not hold the event `version` as it was sent: its server was set back (a
    failover, a restored file), and what was sent may not have happened. All is sent again from the
    run's beginning.
    """

    run: str
    version: int


class End(msgspec.Struct, tag="end", tag_field="type", kw_only=True, frozen=True):
    """
    Nothing comes after this: the run has ended at `version`, or no more was asked for (of all runs:
    both null).
    """

    run: str | None = None
    version: int | None = None


class Place(msgspec.Struct, frozen=True):
    """How far a reader is: a run's version, and the id of that event where it is known."""

    version: int = 0
    event_id: str = ""

    @property
    def id(self) -> str:
        """The place as the id of a record."""
        return f"{self.version}:{self.event_id}"

    @classmethod
    def of(cls, text: str) -> Place:
        """The place that an id names. Raises InvalidInput: it is none."""
        version, _, event_id = text.partition(":")
        if not (version.isascii() and version.isdecimal() and len(version) < 16):
            raise InvalidInput(f"{ascii(text)[:80]} is no id of a record of this stream")
        return cls(int(version), event_id)


class Page(msgspec.Struct, frozen=True):
    """
    Lines, and the place after them. `more`: there may be another page; `over`: the run has ended,
    or can't be read any further.
    """

    lines: tuple[Line, ...]
    place: Place
    more: bool = False
    over: bool = False
    events: tuple[Envelope, ...] = ()


def read_on(store: EventStore, run: str, place: Place, *, limit: int = PAGE) -> Page:
    """
    The next page after a place. Where the log does not confirm the place all begins anew, after a
    line that says so.
    """
    told: list[Line] = []
    if place.version and not _confirmed(store, run, place):
        told.append(begin(RunSetBack(run=run, version=place.version)))
        place = Place()
    events, unreadable = _readable(store, run, place.version, limit)
    lines = [event_line(event) for event in events]
    if events:
        place = Place(events[-1].version, events[-1].id)
    if unreadable is not None:
        lines.append(unreadable)
    return Page(
        lines=(*told, *lines),
        place=place,
        more=len(events) == limit,
        over=unreadable is not None,
        events=tuple(events),
    )


def ended(store: EventStore, run: str, place: Place) -> bool:
    """Whether a run has ended, and nothing of it comes after a place."""
    row = store.row(run)
    closed = row is None or row.phase in ("closed", "archived")
    return closed and (row is None or row.version <= place.version)


def closes(events: Sequence[Envelope]) -> bool:
    """Whether these events may be a run's last."""
    return any(isinstance(event.data, _CLOSING) for event in events)


def event_line(event: Envelope) -> Line:
    """The line of an event."""
    place = Place(event.version, event.id)
    return Line(record(line(event), id=place.id), event.version, event.id)


def end_line(run: str, place: Place) -> Line:
    """The line after which nothing comes."""
    return Line(
        record(End(run=run, version=place.version), event="end", id=place.id),
        place.version,
        kind="end",
    )


def feed_end_line() -> Line:
    """The same of all runs."""
    return Line(record(End(), event="end"), kind="end")


def begin(said: RunSetBack) -> Line:
    """The line after which all begins anew."""
    return Line(record(said, event="run_set_back", id=Place().id), kind="begin")


def _confirmed(store: EventStore, run: str, place: Place) -> bool:
    """Whether the log holds the event that was read last (of any id, where none is known)."""
    try:
        found = store.read(run, place.version - 1, limit=1)
    except EventUnreadable:
        return True  # the next page says so
    return bool(found) and place.event_id in ("", found[0].id)


def _readable(
    store: EventStore, run: str, after: int, limit: int
) -> tuple[list[Envelope], Line | None]:
    """A run's next events up to one that can't be read, and the line that says so."""
    try:
        return store.read(run, after, limit=limit), None
    except EventUnreadable as error:
        count = (error.version or 0) - after - 1
        events = store.read(run, after, limit=count) if count > 0 else []
        version = error.version or after
        told = Unreadable(run=run, after=version - 1, through=version, problem=str(error))
    return events, Line(record(told, event="unreadable"), kind="end")
