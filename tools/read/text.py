"""Lines of a text file, numbered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from mulligan.errors import ToolError

__all__ = ["read_text"]

LINE_CHARACTERS = 2_000
"""Of a longer line the beginning is shown."""
MOST_BYTES = 8 << 20
"""Of lines that are shown, with their numbers; the rest is read by another call."""
COUNTED_BYTES = 1 << 30
"""
Lines beyond what is shown are counted in so many bytes, and so is one line; then there are "more
than" so many.
"""
SKIPPED_BYTES = 4 << 30
"""What is skipped on the way to an offset; a sparse file costs nothing, and may be of any size."""

_SNIFFED = 8_192
_PIECE = 1 << 20
_NUMBER_CHARACTERS = 7
_KEPT = 4 * (LINE_CHARACTERS + 1)
_REPLACED = "\N{REPLACEMENT CHARACTER}"


class _Line(msgspec.Struct, frozen=True):
    """The beginning of a line, and how many bytes all of it has; more, if it is not `whole`."""

    start: bytes
    size: int
    whole: bool = True


def read_text(file: BinaryIO, name: str, first: int, count: int) -> str:
    """
    `count` lines from line `first`, behind a line that says what this is, of how much, and where to
    read on.

    Raises ToolError: `not_text` for a file that holds zero bytes, `too_far` for a line that lies
    beyond what is read of a file at all.
    """
    if b"\0" in file.read(_SNIFFED):
        raise ToolError("not_text", f"{name} is neither text nor PDF")
    file.seek(0)
    skipped, there = _skip(file, first - 1)
    if not there:
        raise ToolError(
            "too_far",
            f"line {first:,} of {name} is beyond its first {SKIPPED_BYTES:,} bytes, which hold "
            f"{skipped:,} lines and are as far as it is read",
        )
    shown = _taken(_lines(file), count)
    reached = skipped + len(shown)
    more, exact = (0, False) if shown and not shown[-1].whole else _count(file)
    total = f"{'' if exact else 'more than '}{reached + more:,}"
    if not shown:
        said = f"there is no line {first:,}" if reached else "it is empty"
        return f"[{name}: {total} lines; {said}]"
    texts = [_text(line, first + place) for place, line in enumerate(shown)]
    rest = f"; read on with offset {reached + 1}" if more else ""
    replaced = any(_is_replaced(line) for line in shown)
    odd = f"; what is not UTF-8 is shown as {_REPLACED}" if replaced else ""
    return "\n".join([f"[{name}: lines {first:,}-{reached:,} of {total}{rest}{odd}]", *texts])


def _skip(file: BinaryIO, wanted: int) -> tuple[int, bool]:
    """How many of the wanted lines were skipped, and whether the rest is not too far away."""
    skipped, read, last = 0, 0, b"\n"
    while skipped < wanted and (piece := file.read(_PIECE)):
        ends = piece.count(b"\n")
        if skipped + ends >= wanted:
            place = -1
            for _ in range(wanted - skipped):
                place = piece.find(b"\n", place + 1)
            file.seek(place + 1 - len(piece), os.SEEK_CUR)
            return wanted, True
        skipped, read, last = skipped + ends, read + len(piece), piece[-1:]
        if read >= SKIPPED_BYTES:
            return skipped, False
    return skipped + (last != b"\n"), True


def _taken(lines: Iterator[_Line], count: int) -> list[_Line]:
    """So many lines, or those before it is too much."""
    taken: list[_Line] = []
    size = 0
    while len(taken) < count and size < MOST_BYTES and (line := next(lines, None)) is not None:
        taken.append(line)
        size += min(len(line.start), LINE_CHARACTERS) + _NUMBER_CHARACTERS
    return taken


def _text(line: _Line, number: int) -> str:
    text = line.start.decode(errors="replace")
    if number == 1:
        text = text.removeprefix("\N{BYTE ORDER MARK}")
    kept = text[:LINE_CHARACTERS]
    if len(text) > LINE_CHARACTERS:
        more = "" if line.whole else "more than "
        kept += f" [line cut here: {more}{line.size:,} bytes in all]"
    return f"{number:>6}\t{kept}"


def _is_replaced(line: _Line) -> bool:
    kept = line.start.decode(errors="replace")[:LINE_CHARACTERS]
    return kept.count(_REPLACED) > line.start.count(_REPLACED.encode())


def _lines(file: BinaryIO) -> Iterator[_Line]:
    """Lines without their ends, of each no more than its beginning in memory."""
    while start := file.readline(_KEPT):
        size, piece = len(start), start
        while not piece.endswith(b"\n") and (piece := file.readline(_PIECE)):
            size += len(piece)
            if size >= COUNTED_BYTES and not piece.endswith(b"\n"):
                yield _Line(start, size, whole=False)
                return
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
