"""
Events of which the outside alone is read, until somebody asks for more.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar, cast

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.codec import KeyNamed, decode
from mulligan.events.envelope import Envelope
from mulligan.events.facts import FACTS, Fact
from mulligan.events.store import RawEvent


class _Outside(msgspec.Struct, gc=False):
    id: str
    type: str
    v: int = 1


class _Inside(msgspec.Struct, gc=False):
    data: msgspec.Raw
    data_key: str | None = None


Part = TypeVar("Part", bound=msgspec.Struct)
Kind: TypeAlias = type[Part]

_outside = msgspec.json.Decoder(_Outside).decode
_inside = msgspec.json.Decoder(_Inside).decode
_NOTHING = _Outside(id="", type="")
"""What decoding says of it is the error."""

_SHAPES = {tag: kind.VERSION for tag, kind in FACTS.items()}


class Unopened(msgspec.Struct, gc=False):
    """
    What an `Envelope` says, with the fact decoded, and decrypted, only when `data` is asked for:
    most of what is folded into a row needs no more of an event than its type.

    Raises:
        EventUnreadable: `data` is not what the event's type has, or can't be decrypted.
    """

    run: str
    version: int
    time_ms: int
    id: str
    type: str
    raw: bytes
    key_named: KeyNamed

    @property
    def data(self) -> Fact:
        """The fact, in its newest shape; decoded each time."""
        return decode(self.run, self.version, self.time_ms, self.raw, self.key_named).data

    def part(self, kind: Kind[Part]) -> Part:
        """Those fields of the fact that `kind` has; plans and long texts may be passed over."""
        try:
            inside = _inside(self.raw)
            if inside.data_key is None:
                return msgspec.json.decode(inside.data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # decoding it as a whole says what is wrong
        return cast(Part, self.data)


def unopened(
    run: str, found: list[RawEvent] | EventUnreadable, key_named: KeyNamed
) -> tuple[list[Envelope | Unopened], EventUnreadable | None]:
    """
    What was found of a run, as far as it can be read, and what ends it: broken bytes, a tag or a
    shape that this version of the code doesn't know.
    """
    events: list[Envelope | Unopened] = []
    if isinstance(found, EventUnreadable):
        return events, found
    for version, time_ms, raw in found:
        try:
            seen = _outside(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            seen = _NOTHING
        if seen.v == _SHAPES.get(seen.type):
            events.append(Unopened(run, version, time_ms, seen.id, seen.type, raw, key_named))
            continue
        try:
            events.append(decode(run, version, time_ms, raw, key_named))
        except EventUnreadable as error:
            return events, error
    return events, None
