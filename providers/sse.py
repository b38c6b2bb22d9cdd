"""
Server-sent events, read incrementally from bytes.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator


class EventReader:
    """
    Splits a body into the data of its events (WHATWG HTML, 9.2.6), however the bytes are cut.

    Lines end in LF, CR or CRLF; comments and fields other than `data` are passed over; several
    `data` lines are joined by LF. An event that no blank line ended is not one.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._partial: list[str] = []
        self._after_cr = False
        self._first = True
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the data of each event that these bytes complete."""
        for line in self._lines(self._decoder.decode(data)):
            if line == "" and self._data:
                yield "\n".join(self._data)
                self._data = []
            elif line == "data" or line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))

    def _lines(self, text: str) -> Iterator[str]:
        if self._first and text:
            text, self._first = text.removeprefix("\ufeff"), False
        if self._after_cr and text:
            # The LF of a CRLF that was cut in two.
            text, self._after_cr = text.removeprefix("\n"), False
        self._after_cr = self._after_cr or text.endswith("\r")
        pieces = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for piece in pieces[:-1]:
            yield "".join([*self._partial, piece])
            self._partial = []
        self._partial.append(pieces[-1])
