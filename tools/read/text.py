"""Lines of a text file, numbered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import msgspec

from mulligan.errors import ToolError

__all__ = ["read_text"]

LINE_CHARACTERS = 2_000
"""Of a longer line the beginning is shown."""
MOST_BYTES = 8 << 20
"""Of lines that are shown, with their numbers; the rest is read by another call."""
COUNTED_BYTES = 1 << 30
"""Lines beyond what is shown are counted in so many bytes; then there are "more than" so many."""

_SNIFFED = 8_192
_PIECE = 1 << 20
_KEPT = 4 * (LINE_CHARACTERS + 1)
_REPLACED = "\N{REPLACEMENT CHARACTER}"


class _Line(msgspec.Struct, frozen=True):
    """The beginning of a line, and how many bytes all of it has."""

    start: bytes
    size: int


def read_text(file: BinaryIO, name: str, first: int, count: int) -> str:
    """
    `count` lines from line `first`, behind a line that says what this is, of how much, and where to
    read on.

    Raises ToolError, `not_text`, for a file that holds zero bytes.
    """
    if b"\0" in file.read(_SNIFFED):
        raise ToolError("not_text", f"{name} is neither text nor PDF")
    file.seek(0)
    lines = _lines(file)
    skipped = sum(1 for _ in islice(lines, min(first - 1, sys.maxsize)))
    shown, replaced = _shown(lines, first, count)
    reached = skipped + len(shown)
    more, exact = _count(file)
    total = f"{'' if exact else 'more than '}{reached + more:,}"
    if not shown:
        said = f"there is no line {first:,}" if reached else "it is empty"
        return f"[{name}: {total} lines; {said}]"
    rest = f"; read on with offset {reached + 1}" if more else ""
    odd = f"; what is not UTF-8 is shown as {_REPLACED}" if replaced else ""
    return "\n".join([f"[{name}: lines {first:,}-{reached:,} of {total}{rest}{odd}]", *shown])


def _shown(lines: Iterator[_Line], first: int, count: int) -> tuple[list[str], bool]:
    """The numbered lines, and whether bytes of them had to be replaced."""
    shown: list[str] = []
    replaced = False
    size = 0
    while len(shown) < count and size < MOST_BYTES and (line := next(lines, None)) is not None:
        text = line.start.decode(errors="replace")
        if first == 1 and not shown:
            text = text.removeprefix("\N{BYTE ORDER MARK}")
        kept = text[:LINE_CHARACTERS]
        replaced = replaced or kept.count(_REPLACED) > line.start.count(_REPLACED.encode())
        if len(text) > LINE_CHARACTERS:
            kept += f" [line cut here: {line.size:,} bytes in all]"
        shown.append(f"{first + len(shown):>6}\t{kept}")
        size += len(shown[-1])
    return shown, replaced


def _lines(file: BinaryIO) -> Iterator[_Line]:
    """Lines without their ends, of each no more than its beginning in memory."""
    while start := file.readline(_KEPT):
        size, piece = len(start), start
        while not piece.endswith(b"\n") and (piece := file.readline(_PIECE)):
            size += len(piece)
        end = 0 if not (piece or start).endswith(b"\n") else 1
        yield _Line(start.removesuffix(b"\n").removesuffix(b"\r"), size - end)


def _count(file: BinaryIO) -> tuple[int, bool]:
    """How many lines are left, and whether that is all."""
    count, read, last = 0, 0, b"\n"
    while read < COUNTED_BYTES and (piece := file.read(_PIECE)):
        count += piece.count(b"\n")
        read += len(piece)
        last = piece[-1:]
    return count + (last != b"\n"), read < COUNTED_BYTES
