"""
Values that events carry: inline while they are small, by digest once they are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from operator import is_
from typing import Any, TypeVar, get_args, get_type_hints

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


_UNCHANGING = frozenset({str, int, float, bool, type(None)})


def copied(value: Any) -> Any:
    """
    A JSON value that may be changed without changing this one; what stands in it that is no JSON is
    copied as Python does, which for the rest takes several times as long.
    """
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if kind is dict:
        return {name: copied(item) for name, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return deepcopy(value)


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
    for name in _payload_fields(type(fact)):
        yield from _payloads(getattr(fact, name))


def with_payloads(fact: S, change: Callable[[Payload], Payload]) -> S:
    """The fact with `change` of each of its payloads; itself, if that changes none."""
    changed = {}
    for name in _payload_fields(type(fact)):
        old = getattr(fact, name)
        new = _changed(old, change)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(fact, **changed) if changed else fact


@cache
def _payload_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a kind of fact that may hold payloads, by its annotations."""
    return tuple(name for name, hint in get_type_hints(kind).items() if _holds_payload(hint))


def _holds_payload(hint: Any) -> bool:
    return hint is Payload or hint is Any or any(map(_holds_payload, get_args(hint)))


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
