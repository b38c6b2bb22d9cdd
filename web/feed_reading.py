"""
The events of all runs on from a place, as records of a stream.

A place is told for each partition: the last entry of its feed that was sent, and of an entry that
was sent in part, how many of its events (`0=1733-0,1=1735-2.1`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from mulligan.errors import InvalidInput
from mulligan.events.codec import line
from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore
from mulligan.feed import FeedReading, Gap, Reference, SetBack, events_of
from mulligan.web.rings import Line
from mulligan.web.sse import record

_PART = re.compile(r"(\d{1,4})=(\d{1,20})-(\d{1,20})(?:\.(\d{1,5}))?")
WHOLE = 1_000_000
"""Of an entry all of whose events were sent; an append has a thousandth of them at most."""

_MOST_MS, _MOST_NUMBER = (1 << 63) - 1, (1 << 64) - 1
"""Of an entry's id: numbers of 64 bits, the first well short of the last one that there is."""

Order = tuple[int, int, int]
"""Milliseconds and place of an entry's id, and how many of its events."""


class FeedPlace(msgspec.Struct, frozen=True):
    """How far a reader is in each partition; one that is missing stands at its beginning."""

    orders: Mapping[int, Order] = {}

    @property
    def id(self) -> str:
        """The place as the id of a record."""
        return ",".join(
            f"{partition}={order[0]}-{order[1]}" + (f".{order[2]}" if order[2] != WHOLE else "")
            for partition, order in sorted(self.orders.items())
        )

    @classmethod
    def of(cls, text: str) -> FeedPlace:
        """The place that an id names. Raises InvalidInput: it is none."""
        orders: dict[int, Order] = {}
        for part in text.split(",") if text else ():
            found = _PART.fullmatch(part)
            if found is None or int(found[2]) > _MOST_MS or int(found[3]) > _MOST_NUMBER:
                raise InvalidInput(f"{ascii(text)[:80]} is no id of a record of this stream")
            sent = int(found[4]) if found[4] is not None else WHOLE
            orders[int(found[1])] = (int(found[2]), int(found[3]), sent)
        return cls(orders)

    def at(self, partition: int, order: Order) -> FeedPlace:
        """The same, with another place in one partition."""
        return FeedPlace({**self.orders, partition: order})

    @classmethod
    def now(cls, store: EventStore) -> FeedPlace:
        """The end of all feeds."""
        ends = {partition: store.feed_end(partition) for partition in range(store.partitions())}
        return cls({partition: order_of(end) for partition, end in ends.items() if end != "0"})

    def reading(self, store: EventStore) -> FeedReading:
        """What reads on from here; where an entry that was sent is missing, it says so."""
        there = {
            partition: order
            for partition, order in self.orders.items()
            if partition < store.partitions()
        }
        return FeedReading(
            store,
            {partition: _before(order) for partition, order in there.items()},
            {partition: f"{order[0]}-{order[1]}" for partition, order in there.items() if order[0]},
        )


def lines_of(
    store: EventStore, reading: FeedReading, place: FeedPlace, wait_ms: int
) -> Iterator[Line]:
    """What is new in all partitions after a place, each line with the place after it as its id."""
    for found in reading.turn(wait_ms):
        for one in told(store, found, place):
            place = place.at(one.partition, one.order)
            yield one


def told(store: EventStore, found: Reference | Gap | SetBack, place: FeedPlace) -> Iterator[Line]:
    """The lines of what was found in the feed, those that a reader at `place` has not had."""
    match found:
        case Gap():
            order = order_of(found.through)
            yield _begin(found, "gap", found.partition, place.at(found.partition, order), order)
        case SetBack():
            order = (0, 0, WHOLE)
            after = place.at(found.partition, order)
            yield _begin(found, "set_back", found.partition, after, order)
        case Reference():
            yield from _events(store, found, place)


def order_of(feed_id: str) -> Order:
    """The order of an entry that was sent whole."""
    milliseconds, _, number = feed_id.partition("-")
    return int(milliseconds), int(number or 0), WHOLE


def _events(store: EventStore, found: Reference, place: FeedPlace) -> Iterator[Line]:
    events = events_of(store, found.entry)
    milliseconds, number, _ = order_of(found.entry.id)
    had = place.orders.get(found.partition, (0, 0, 0))
    for sent, event in enumerate(events, start=1):
        order = (milliseconds, number, WHOLE if sent == len(events) else sent)
        if order <= had:
            continue
        after = place.at(found.partition, order).id
        if isinstance(event, Envelope):
            raw = record(line(event), id=after)
        else:
            raw = record(event, event="unreadable", id=after)
        yield Line(raw, partition=found.partition, order=order)


def _begin(said: Gap | SetBack, event: str, partition: int, after: FeedPlace, order: Order) -> Line:
    raw = record(said, event=event, id=after.id)
    return Line(raw, partition=partition, order=order, kind="begin")


def _before(order: Order) -> str:
    """The feed id after which an entry is found that was not sent whole; else the entry's own."""
    milliseconds, number, sent = order
    if sent == WHOLE:
        return f"{milliseconds}-{number}"
    if number:
        return f"{milliseconds}-{number - 1}"
    return f"{max(milliseconds - 1, 0)}-{(1 << 64) - 1}"
