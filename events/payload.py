"""
Values that events carry: inline while they are small, by digest once they are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

INLINE_LIMIT_BYTES = 8 * 1024
"""Above this a value goes to the content-addressed store (design: Payloads)."""


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: keys sorted, no blanks, UTF-8; what digests are taken of."""
    return msgspec.json.encode(value, order="sorted")


def digest_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A JSON value in an event.

    `digest` and `size` (bytes) are of its canonical text. `value` is the value itself, or UNSET
    where it lies in the store under its digest.
    """

    digest: str
    size: int
    value: Any = msgspec.UNSET

    @classmethod
    def of(cls, value: Any) -> Payload:
        """Wrap a JSON value, inline; the store moves it out when it is large."""
        text = canonical(value)
        return cls(digest=digest_of(text), size=len(text), value=value)

    @property
    def inline(self) -> bool:
        """Whether the value is here and not in the store."""
        return self.value is not msgspec.UNSET

    def without_value(self) -> Payload:
        """The same payload, to be looked up by its digest."""
        return Payload(digest=self.digest, size=self.size)


def payloads_of(fact: msgspec.Struct) -> Iterator[Payload]:
    """The payloads in a fact's fields, those in tuples included, in their order."""
    for name in fact.__struct_fields__:
        yield from _payloads(getattr(fact, name))


def with_payloads(fact: S, change: Callable[[Payload], Payload]) -> S:
    """The fact with `change` of each of its payloads; itself, if that changes none."""
    fields = ((name, getattr(fact, name)) for name in fact.__struct_fields__)
    changed = {name: new for name, old in fields if (new := _changed(old, change)) is not old}
    return msgspec.structs.replace(fact, **changed) if changed else fact


def _payloads(value: object) -> Iterator[Payload]:
    if isinstance(value, Payload):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _payloads(item)


def _changed(value: Any, change: Callable[[Payload], Payload]) -> Any:
    if isinstance(value, Payload):
        return change(value)
    if isinstance(value, tuple):
        items = tuple(_changed(item, change) for item in value)
        return value if all(map(is_, items, value)) else items
    return value
