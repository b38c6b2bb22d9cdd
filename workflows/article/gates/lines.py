"""
Lines of a text as editors count them, and places in it.

Lines and columns count from 1; columns are characters of the original line, a tab being one. Lines
end at LF, CRLF or CR only. A byte order mark at the start is no part of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

BYTE_ORDER_MARK = "\ufeff"
_LINE_END = re.compile(r"\r\n|\n|\r")


class Place(NamedTuple):
    """A character of a text."""

    line: int
    column: int


class Lines:
    """
    The lines of a text. Offsets count from 0 in `text`: the lines joined by LF, whatever ended
    them in the original; NUL is U+FFFD, as CommonMark has it.
    """

    def __init__(self, original: str) -> None:
        text = original.removeprefix(BYTE_ORDER_MARK).replace("\x00", "\ufffd")
        self.lines = _LINE_END.split(text)
        self.text = "\n".join(self.lines)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, number: int) -> int:
        """The offset at which a line starts; of the line after the last one, the text's end + 1."""
        return self._starts[number - 1]

    def place(self, offset: int) -> Place:
        """Where an offset is."""
        line = min(bisect_right(self._starts, offset), len(self.lines))
        return Place(line, offset - self._starts[line - 1] + 1)


def original_starts(original: str) -> list[int]:
    """The offset in the original, mark included, at which each of its lines starts."""
    start = len(BYTE_ORDER_MARK) if original.startswith(BYTE_ORDER_MARK) else 0
    return [start, *(found.end() for found in _LINE_END.finditer(original))]
