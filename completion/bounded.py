"""
json-repair under limits that stop it.

Its time is not bounded by the size of the text: 16 KB of `["` and `a" b "c ` take it seven seconds.
A clock in another thread would give another verdict on a busy machine. So it reads from a string
that counts: after a fixed number of reads the string raises. The same text always gives the same
verdict, and there is no thread to be left behind. What it does between reads (copying lists, adding
to strings) is at worst quadratic, and a cap on the size keeps that within some 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import json_repair

MAX_MEND_BYTES = 65_536
"""The largest candidate that is mended, as the overseer's (OVR-3)."""

MAX_REPAIR_CHARACTERS = 8_192
"""The largest candidate that json-repair sees; larger ones are read by the other readers alone."""

READS = 20_000
READS_PER_CHARACTER = 4
"""Measured: real malformed output takes 0.5 to 2.3 reads a character (bench/completion.py)."""

_read = str.__getitem__


class _CountedText(str):
    """
    A string that raises StopIteration after a number of reads. Slices and sums of it, which
    json-repair goes on to read from, draw on the same budget.
    """

    __slots__ = ("spend",)
    spend: Callable[[], int]

    @classmethod
    def of(cls, text: str, spend: Callable[[], int]) -> _CountedText:
        counted = cls(text)
        counted.spend = spend
        return counted

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.spend()
        piece = _read(self, key)
        if type(key) is not slice:
            return piece
        for _ in range(len(piece) // CHARACTERS_PER_COPY):
            self.spend()
        return _CountedText.of(piece, self.spend)

    def __add__(self, other: str) -> str:
        return _CountedText.of(str.__add__(self, other), self.spend)


CHARACTERS_PER_COPY = 64
"""A slice costs a read for each so many characters."""


def repaired(text: str) -> tuple[Any] | None:
    """The value that json-repair makes of the text, in a tuple; None if it gives up or must."""
    if len(text) > MAX_REPAIR_CHARACTERS:
        return None
    reads = READS + READS_PER_CHARACTER * len(text)
    counted = _CountedText.of(text, iter(range(reads)).__next__)
    try:
        value = json_repair.loads(counted, skip_json_loads=True)
    except (StopIteration, RecursionError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return (_plain(value),)


def _plain(value: Any) -> Any:
    """The same value with ordinary strings."""
    match value:
        case dict():
            return {str(key): _plain(member) for key, member in value.items()}
        case list():
            return [_plain(item) for item in value]
        case str():
            return str.__str__(value)
        case _:
            return value
