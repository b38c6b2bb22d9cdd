"""
All runs, followed from outside: what the feed refers to, and where it can't be read on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mulligan.errors import EventUnreadable, FeedTrimmed
from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore, FeedEntry

WAIT_MS = 1_000

TURN_MS = 50
"""A turn through several partitions with nothing new; so late an event is shown at most."""


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


class Reference(msgspec.Struct, frozen=True):
    """An entry of a partition's feed."""

    partition: int
    entry: FeedEntry


class FeedReading:
    """
    The references of all partitions in turn, from `places` on (feed ids by partition; none: from
    the beginning). `places` is how far it has read, and `known` the entries that whoever goes on
    has read last, by partition: where one is missing, the server was set back.
    """

    def __init__(
        self,
        store: EventStore,
        places: Mapping[int, str] | None = None,
        known: Mapping[int, str] | None = None,
    ) -> None:
        self._store = store
        self._last: dict[int, FeedEntry] = {}
        self._known = dict(known or {})
        self.places = dict.fromkeys(range(store.partitions()), "0") | dict(places or {})

    def turn(self, wait_ms: int) -> Iterator[Reference | Gap | SetBack]:
        """What is new in each partition, a wait of at most `wait_ms` at each."""
        for partition in list(self.places):
            yield from self._of(partition, wait_ms)

    def _of(self, partition: int, wait_ms: int) -> Iterator[Reference | Gap | SetBack]:
        after = self.places[partition]
        try:
            entries = self._store.feed(partition, after, wait_ms=wait_ms)
        except FeedTrimmed as gap:
            self.places[partition] = gap.trimmed
            self._last.pop(partition, None)
            self._known.pop(partition, None)
            yield Gap(partition=partition, after=after, through=gap.trimmed)
            return
        # Asked after the read: what a feed set back holds instead is not mixed with the rest.
        lost = self._lost(partition)
        if lost is not None:
            self._last.pop(partition, None)
            self._known.pop(partition, None)
            self.places[partition] = "0"
            yield SetBack(partition=partition, after=lost)
            return
        for entry in entries:
            self.places[partition], self._last[partition] = entry.id, entry
            yield Reference(partition, entry)

    def _lost(self, partition: int) -> str | None:
        """The reference that was read last, if it is gone, or another, and was not trimmed."""
        last = self._last.get(partition)
        known = self._known.get(partition) if last is None else last.id
        if known is None:
            return None
        found = self._store.feed_entry(partition, known)
        if found is not None:
            return None if last in (None, found) else known
        try:
            self._store.feed(partition, limit=1)
        except FeedTrimmed as gap:
            if gap.trimmed == known:  # a trim beyond it would have been told as a gap
                return None
        return known


def wait_ms(partitions: int) -> int:
    """How long to wait at one partition: where there are others, not longer than a turn allows."""
    return WAIT_MS if partitions == 1 else max(TURN_MS // partitions, 1)


def events_of(store: EventStore, entry: FeedEntry) -> list[Envelope] | list[Unreadable]:
    """The events that an entry of the feed refers to."""
    after = entry.version - entry.count
    try:
        return store.read(entry.run, after, limit=entry.count)
    except EventUnreadable as error:
        problem = str(error)
    return [Unreadable(run=entry.run, after=after, through=entry.version, problem=problem)]
