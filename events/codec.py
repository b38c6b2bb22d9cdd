"""
Events as bytes: JSON, with the tag and the shape's version of the fact beside it.

Run, version and time are not in the bytes: they are the stream's key, the entry's id, and the
server's own clock at the append.

Where the run has a data key, the fact is encrypted: a string in the place of an object, beside the
id of the key. Everything else in the bytes stays in the clear and is authenticated with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from mulligan.errors import EventUnreadable, PayloadKeyMissing, RunForgotten
from mulligan.events.archive import StoredEvent
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import FACTS, Fact
from mulligan.events.upcast import upcast

if TYPE_CHECKING:
    from mulligan.events.data_key import DataKey

KeyNamed: TypeAlias = "Callable[[str, str], DataKey]"
"""A run's data key by the run and the key's id; raises EventUnreadable."""


class _Stored(msgspec.Struct, omit_defaults=True, kw_only=True):
    id: str
    type: str
    v: int = 1
    node: str | None = None
    attempt: int | None = None
    causation: str | None = None
    correlation: str | None = None
    data_key: str | None = None
    data: msgspec.Raw

    def place(self) -> tuple[object, ...]:
        """What an encrypted fact belongs to, beside its run."""
        about = (self.node, self.attempt, self.causation, self.correlation)
        return ("event", self.id, self.type, self.v, *about)


class _Decoders(dict[str, msgspec.json.Decoder[Any]]):
    """By tag, each made when it is needed first: all together cost a command's start 4 ms."""

    def __missing__(self, tag: str) -> msgspec.json.Decoder[Any]:
        self[tag] = decoder = msgspec.json.Decoder(FACTS[tag])
        return decoder


_encoder = msgspec.json.Encoder()
_stored = msgspec.json.Decoder(_Stored)
_facts = _Decoders()


def event_id(op: str, index: int) -> str:
    """The id of the event at `index` (from 0) of the operation `op`."""
    return f"{op}.{index}"


def encode(
    event: NewEvent,
    *,
    id: str,  # noqa: A002 - the field's name
    causation: str | None,
    correlation: str | None,
    key: DataKey | None = None,
) -> bytes:
    """Return the bytes of an event to append; with a `key`, its fact is encrypted."""
    stored = _Stored(
        id=id,
        type=type(event.data).__name__,
        v=event.data.VERSION,
        node=event.node,
        attempt=event.attempt,
        causation=causation,
        correlation=correlation,
        data=msgspec.Raw(_encoder.encode(event.data)),
    )
    if key is not None:
        stored.data_key = key.id
        stored.data = msgspec.Raw(key.seal_text(bytes(stored.data), *stored.place()))
    return _encoder.encode(stored)


def _no_keys(run: str, id: str) -> DataKey:  # noqa: A002 - the field's name
    raise EventUnreadable(f"run {run!r}: encrypted, and read without its data keys")


def decode(
    run: str, version: int, time_ms: int, raw: bytes, key_named: KeyNamed = _no_keys
) -> Envelope:
    """
    Return the event that `raw` holds, in its newest shape.

    Raises:
        EventUnreadable: broken bytes, a tag or a shape that this version of the code doesn't know;
            or it is encrypted, and the key to it can't be had, or does not fit.
    """
    try:
        stored = _stored.decode(raw)
        if stored.data_key is not None:
            stored.data = _opened(run, version, stored, key_named)
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


def _opened(run: str, version: int, stored: _Stored, key_named: KeyNamed) -> msgspec.Raw:
    """An encrypted fact, decrypted; errors tell of which event they are."""
    assert stored.data_key is not None
    try:
        key = key_named(run, stored.data_key)
        return msgspec.Raw(key.open_text(bytes(stored.data), *stored.place()))
    except PayloadKeyMissing as error:
        about = f"run {run!r}, event {version}"
        raise PayloadKeyMissing(about, error.key, other=error.other, version=version) from None
    except RunForgotten:
        raise RunForgotten(run, version=version) from None
    except EventUnreadable as error:
        raise EventUnreadable(f"event {version}: {error}", version=version) from None


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What an event tells without its fact: all that is in the clear where facts are encrypted."""

    id: str
    version: int
    time_ms: int
    type: str
    node: str | None
    attempt: int | None
    causation: str | None
    correlation: str | None
    encrypted: bool


def outline(version: int, time_ms: int, raw: bytes) -> Outline:
    """
    What is in the clear of an event.

    Raises:
        EventUnreadable: broken bytes.
    """
    try:
        stored = _stored.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventUnreadable(f"event {version}: no event", version=version) from error
    return Outline(
        id=stored.id,
        version=version,
        time_ms=time_ms,
        type=stored.type,
        node=stored.node,
        attempt=stored.attempt,
        causation=stored.causation,
        correlation=stored.correlation,
        encrypted=stored.data_key is not None,
    )


def outlines_of(events: Sequence[StoredEvent]) -> list[Outline]:
    """The same of a run's events, from version 1 on."""
    return [outline(version, one.time_ms, one.raw) for version, one in enumerate(events, start=1)]


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
