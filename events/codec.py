"""
Events as bytes: JSON, with the tag and the shape's version of the fact beside it.

Run, version and time are not in the bytes: they are the stream's key, the entry's id, and the
server's own clock at the append.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import FACTS, Fact
from mulligan.events.upcast import upcast


class _Stored(msgspec.Struct, omit_defaults=True, kw_only=True):
    id: str
    type: str
    v: int = 1
    node: str | None = None
    attempt: int | None = None
    causation: str | None = None
    correlation: str | None = None
    data: msgspec.Raw


_encoder = msgspec.json.Encoder()
_stored = msgspec.json.Decoder(_Stored)
_facts: dict[str, msgspec.json.Decoder[Any]] = {
    tag: msgspec.json.Decoder(kind) for tag, kind in FACTS.items()
}


def event_id(op: str, index: int) -> str:
    """The id of the event at `index` (from 0) of the operation `op`."""
    return f"{op}.{index}"


def encode(event: NewEvent, *, id: str, causation: str | None, correlation: str | None) -> bytes:  # noqa: A002 - the field's name
    """Return the bytes of an event to append."""
    return _encoder.encode(
        _Stored(
            id=id,
            type=type(event.data).__name__,
            v=event.data.VERSION,
            node=event.node,
            attempt=event.attempt,
            causation=causation,
            correlation=correlation,
            data=msgspec.Raw(_encoder.encode(event.data)),
        )
    )


def decode(run: str, version: int, time_ms: int, raw: bytes) -> Envelope:
    """
    Return the event that `raw` holds, in its newest shape.

    Raises:
        EventUnreadable: broken bytes, a tag or a shape that this version of the code doesn't know.
    """
    try:
        stored = _stored.decode(raw)
        data = _decode_fact(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventUnreadable(
            f"run {run!r}, event {version}: not an event of a known shape; "
            "was something other than mulligan writing to this stream?",
            version=version,
        ) from error
    except LookupError as error:
        raise EventUnreadable(
            f"run {run!r}, event {version}: {error.args[0]}; "
            "it was written by a newer mulligan: upgrade this process",
            version=version,
        ) from None
    return Envelope(
        id=stored.id,
        run=run,
        version=version,
        time_ms=time_ms,
        data=data,
        node=stored.node,
        attempt=stored.attempt,
        causation=stored.causation,
        correlation=stored.correlation,
    )


def _decode_fact(stored: _Stored) -> Fact:
    kind = FACTS.get(stored.type)
    if kind is None:
        raise LookupError(f"unknown type {stored.type!r}")
    if stored.v > kind.VERSION:
        raise LookupError(f"{stored.type} has shape {stored.v}, known up to {kind.VERSION}")
    if stored.v == kind.VERSION:
        fact: Fact = _facts[stored.type].decode(stored.data)
        return fact
    lifted = upcast(stored.type, stored.v, kind.VERSION, msgspec.json.decode(stored.data))
    return msgspec.convert(lifted, kind)


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event as `mulligan tail` prints it (contracts); `time` is ISO 8601, UTC."""

    id: str
    run: str
    version: int
    type: str
    time: str
    node: str | None
    attempt: int | None
    causation: str | None
    correlation: str
    data: dict[str, Any]


def line(envelope: Envelope) -> EventLine:
    """An event as a line of `mulligan tail`."""
    time = datetime.fromtimestamp(envelope.time_ms / 1000, UTC)
    return EventLine(
        id=envelope.id,
        run=envelope.run,
        version=envelope.version,
        type=envelope.type,
        time=time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        node=envelope.node,
        attempt=envelope.attempt,
        causation=envelope.causation,
        correlation=envelope.correlation or envelope.run,
        data=msgspec.to_builtins(envelope.data),
    )
