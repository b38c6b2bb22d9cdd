"""
An archived run as lines of JSON, compressed: what `zcat` shows can be read without mulligan.

    {"kind": "run", "format": 1, "run": …, "version": …}
    {"kind": "event", "version": …, "time_ms": …, "event": …}    each event, as it was stored
    {"kind": "payload", "digest": …, "value": …}                 each large value
    {"kind": "row", "projection": …, "row": …}
    {"kind": "end", "events": …, "payloads": …}

Events, values and rows stand there byte for byte. Of a run with a data key they are encrypted: the
facts of events, values and rows are strings then, and values have other names than their digests.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.archive import ArchivedRun, StoredEvent
from mulligan.events.data_key import NAMED
from mulligan.events.payload import digest_of

FORMAT = 1
LEVEL = 6
"""Of gzip; 9 takes twice the time for a hundredth of the size."""


class _Run(msgspec.Struct, tag="run", tag_field="kind"):
    format: int
    run: str
    version: int


class _Event(msgspec.Struct, tag="event", tag_field="kind"):
    version: int
    time_ms: int
    event: msgspec.Raw


class _Payload(msgspec.Struct, tag="payload", tag_field="kind"):
    digest: str
    value: msgspec.Raw


class _Row(msgspec.Struct, tag="row", tag_field="kind"):
    projection: str
    row: msgspec.Raw


class _End(msgspec.Struct, tag="end", tag_field="kind"):
    events: int
    payloads: int


_Line = _Run | _Event | _Payload | _Row | _End
_line = msgspec.json.Decoder(_Line)


def pack(run: ArchivedRun) -> bytes:
    """The bytes of a run's file; the same for the same run."""
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in _lines(run))
    return gzip.compress(lines, LEVEL, mtime=0)


def _lines(run: ArchivedRun) -> Iterator[_Line]:
    yield _Run(FORMAT, run.run, len(run.events))
    for version, event in enumerate(run.events, start=1):
        yield _Event(version, event.time_ms, msgspec.Raw(event.raw))
    for digest, value in run.payloads.items():
        yield _Payload(digest, msgspec.Raw(value))
    for projection, row in run.rows.items():
        yield _Row(projection, msgspec.Raw(row))
    yield _End(len(run.events), len(run.payloads))


def unpack(run: str, data: bytes) -> ArchivedRun:
    """
    The run that a file holds.

    Raises:
        EventUnreadable: it is cut, damaged, another run's, or of a newer format.
    """
    try:
        lines = [_line.decode(line) for line in gzip.decompress(data).splitlines()]
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(run, f"is damaged ({type(error).__name__})") from error
    head = lines[0] if lines else None
    if not isinstance(head, _Run) or head.run != run:
        raise _unreadable(run, "holds another run, or none")
    if head.format > FORMAT:
        raise _unreadable(run, f"is of format {head.format}: upgrade this process")
    return _checked(_gathered(run, lines), lines)


def _gathered(run: str, lines: list[_Line]) -> ArchivedRun:
    events = [line for line in lines if isinstance(line, _Event)]
    if [event.version for event in events] != list(range(1, len(events) + 1)):
        raise _unreadable(run, "lacks events")
    return ArchivedRun(
        run=run,
        events=tuple(StoredEvent(event.time_ms, bytes(event.event)) for event in events),
        payloads={one.digest: bytes(one.value) for one in lines if isinstance(one, _Payload)},
        rows={one.projection: bytes(one.row) for one in lines if isinstance(one, _Row)},
    )


def _checked(run: ArchivedRun, lines: list[_Line]) -> ArchivedRun:
    if lines[-1] != _End(len(run.events), len(run.payloads)):
        raise _unreadable(run.run, "is cut off")
    for digest, value in run.payloads.items():
        if not digest.startswith(NAMED) and digest_of(value) != digest:
            raise _unreadable(run.run, f"has another payload than {digest}")
    return run


def _unreadable(run: str, problem: str) -> EventUnreadable:
    return EventUnreadable(f"run {run!r}: its archived file {problem}")
