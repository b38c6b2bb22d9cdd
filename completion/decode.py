"""
Strict JSON (OUT-3, step 1), as fast as msgspec and stricter than it.

msgspec keeps the last of duplicate keys without a word. Whether it dropped one is seen by counting
colons in the text and in the value written again: each member has one outside of strings, and
strings have the same ones in both. Where the count can't tell (`\\u003a`), or where msgspec
refuses, the slow and explicit decoder of the standard library says what is the matter.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import msgspec

MAX_DEPTH = 100
"""Nesting beyond this is refused; schemas are held to the same (REC-25)."""

_CONTAINERS = (dict, list)
_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()


class Decoded(msgspec.Struct, frozen=True):
    """The text is JSON, and this is its value."""

    value: Any

    def __repr__(self) -> str:
        return f"Decoded(<{type(self.value).__name__}>)"


class Unusable(msgspec.Struct, frozen=True):
    """The text is whole, but no value may be made of it; not for repair to change."""

    code: str
    message: str


_DUPLICATE = ("duplicate_key", "an object has the same key twice")
_NOT_A_NUMBER = ("not_a_number", "NaN and Infinity are no JSON numbers")
_TOO_LARGE = ("number_out_of_range", "a number is beyond what can be kept exactly")
_SURROGATE = ("lone_surrogate", "a string holds half of a surrogate pair")
_TOO_DEEP = ("too_deep", f"nested deeper than {MAX_DEPTH} levels")


def decode(text: str) -> Decoded | Unusable | None:
    """The value of strict JSON; Unusable where the syntax holds but a value must not; else None."""
    try:
        data = text.encode()
        value = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _explain(text)
    if not _kept_every_member(data, value):
        return _explain(text)
    return Unusable(*_TOO_DEEP) if _too_deep(data, value) else Decoded(value)


def _kept_every_member(data: bytes, value: Any) -> bool:
    if b"\\u003" in data:
        return False
    return data.count(b":") == _ENCODER.encode(value).count(b":")


def _too_deep(data: bytes, value: Any) -> bool:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _containers_in(parent)]
        if not level:
            return False
    return True


def _containers_in(value: Any) -> list[Any]:
    members = value.values() if type(value) is dict else value
    return [child for child in members if type(child) in _CONTAINERS]


def _explain(text: str) -> Decoded | Unusable | None:
    """Decode with the hooks that msgspec lacks; about four times its time."""
    reader = _Explaining()
    try:
        value = reader.decode(text)
        data = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return Unusable(*_SURROGATE)
    except (ValueError, RecursionError):
        return None
    if reader.reasons:
        return Unusable(*reader.reasons[0])
    return Unusable(*_TOO_DEEP) if _too_deep(data, value) else Decoded(value)


class _Explaining:
    """Reads on to the end of the text whatever it finds: a text that is cut must be seen as cut."""

    def __init__(self) -> None:
        self.reasons: list[tuple[str, str]] = []

    def decode(self, text: str) -> Any:
        return json.loads(
            text,
            object_pairs_hook=self._object,
            parse_float=self._float,
            parse_int=self._int,
            parse_constant=self._constant,
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.reasons.append(_DUPLICATE)
        return value

    def _float(self, text: str) -> float:
        number = float(text)
        if not isfinite(number):
            self.reasons.append(_TOO_LARGE)
            return 0.0
        return number

    def _int(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:  # beyond sys.get_int_max_str_digits(): 4,300 digits
            self.reasons.append(_TOO_LARGE)
            return 0

    def _constant(self, _: str) -> None:
        self.reasons.append(_NOT_A_NUMBER)
