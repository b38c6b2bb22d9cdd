"""Whether a document says a value, however it spells it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

_NUMBER = re.compile(r"\d+(?:[ .,'\u00a0\u202f]\d+)*")
_SEPARATORS = re.compile(r"[ .,'\u00a0\u202f]")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_BLANKS = re.compile(r"\s+")


def says(text: str, value: Any) -> bool:
    """Whether `text` states `value`: a number, a day as YYYY-MM-DD, or words."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return Decimal(str(value)) in _numbers(text)
    words = str(value)
    folded = _folded(text)
    if _DAY.fullmatch(words):
        return any(spelled in folded for spelled in _spellings(words))
    whole = rf"(?<!\w){re.escape(_folded(words))}(?!\w)"
    return re.search(whole, folded) is not None


def number_of(value: Any) -> float | None:
    """The number that a text spells, if it spells one and can't be read as another."""
    if not isinstance(value, str):
        return None
    found = _NUMBER.fullmatch(value.strip())
    read = set(_readings(found.group())) if found else set()
    return float(read.pop()) if len(read) == 1 else None


@functools.lru_cache(maxsize=64)
def _numbers(text: str) -> frozenset[Decimal]:
    return frozenset(read for found in _NUMBER.findall(text) for read in _readings(found))


def _readings(spelled: str) -> Iterator[Decimal]:
    """
    What digits with separators may mean: the last separator is a decimal point or sets off
    thousands (1,234 is both), the others set off thousands.
    """
    pieces = _SEPARATORS.split(spelled)
    groups = len(pieces) > 1 and all(len(piece) == 3 for piece in pieces[1:])
    if len(pieces) == 1 or groups:
        yield Decimal("".join(pieces))
    if len(pieces) > 1:
        try:
            yield Decimal(f"{''.join(pieces[:-1])}.{pieces[-1]}")
        except InvalidOperation:
            return


def _folded(text: str) -> str:
    return _BLANKS.sub(" ", text).strip().casefold()


def _spellings(day: str) -> Iterator[str]:
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return
    d, m, y = found.day, found.month, found.year
    name, short = found.strftime("%B").casefold(), found.strftime("%b").casefold()
    yield day
    for separator in "./-":
        for first, second in ((d, m), (m, d)):
            yield f"{first:02}{separator}{second:02}{separator}{y}"
            yield f"{first}{separator}{second}{separator}{y}"
    for month in (name, short, f"{short}."):
        yield from (f"{d} {month} {y}", f"{d:02} {month} {y}", f"{month} {d}, {y}")
        yield f"{d}. {month} {y}"
