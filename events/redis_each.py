"""
Reading many runs with few waits for the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mulligan.events.redis_connection import answers
from mulligan.events.redis_streams import Streams
from mulligan.events.store import RawEvent
from mulligan.events.wire_client import WireClient

FIRST_PAGE = 100
"""Entries asked for of each at first; of who has more, the rest is read by itself."""


def events_of_each(streams: Streams, wanted: Sequence[tuple[str, int]]) -> Iterator[list[RawEvent]]:
    """
    The events of each stream above a version, in the order of the streams. A client of redis-py,
    which a cluster needs, is asked for one after another.
    """
    client = streams.client
    if not isinstance(client, WireClient):
        for stream, after in wanted:
            yield _rest(streams, stream, after)
        return
    bound = ("+", "COUNT", FIRST_PAGE)
    commands = (("XRANGE", stream, f"({after}-0", *bound) for stream, after in wanted)
    with answers(streams.place):
        for (stream, _), page in zip(wanted, client.calls(commands), strict=True):
            events = _raw_events(page)
            if len(events) == FIRST_PAGE:
                events += _rest(streams, stream, events[-1][0])
            yield events


def _raw_events(page: list[Any]) -> list[RawEvent]:
    try:
        # As the append script writes them. Events are many, and nothing is called for each but int.
        return [(int(entry_id[:-2]), int(time), raw) for entry_id, (_, time, _, raw) in page]
    except ValueError:
        return [
            _raw_event(entry_id, dict(zip(flat[::2], flat[1::2], strict=True)))
            for entry_id, flat in page
        ]


def _rest(streams: Streams, stream: str, after: int) -> list[RawEvent]:
    entries = streams.entries(stream, f"{after}-0", None)
    return [_raw_event(entry_id.encode(), fields) for entry_id, fields in entries]


def _raw_event(entry_id: bytes, fields: Mapping[bytes, bytes]) -> RawEvent:
    """An entry with whatever fields."""
    return int(entry_id.partition(b"-")[0]), int(fields.get(b"t", 0)), fields.get(b"d", b"")
