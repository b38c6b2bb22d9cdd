"""
Values that events carry: inline while they are small, by digest once they are not.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

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
