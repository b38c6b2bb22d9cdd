"""
The newest records of a stream, shared by all who follow it: bounded, written once, read by many.

Who can't keep up falls out of it and reads the log instead, at its own pace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec

MOST_BYTES = 256 * 1024


class Line(msgspec.Struct, frozen=True):
    """
    A record as it is sent. `version` is that of a run's event, or of the last one before what is no
    event; `partition` and `order` are the place of an event of the feed.
    """

    raw: bytes
    version: int = 0
    event_id: str = ""
    partition: int = 0
    order: tuple[int, int, int] = (0, 0, 0)
    kind: str = "event"
    """event, live (said, and not stored), end, or begin (places are set, not compared)"""


class Ring:
    """Lines by number, from 0 on; only the newest are there. For the event loop's thread."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._first = 0
        self._bytes = 0
        self._news = asyncio.Event()
        self.dropped: Line | None = None
        """the last event that fell out"""

    @property
    def first(self) -> int:
        """The number of the oldest line that is there."""
        return self._first

    @property
    def end(self) -> int:
        """The number that the next line will have."""
        return self._first + len(self._lines)

    def add(self, lines: Sequence[Line]) -> None:
        """Add lines and wake who waits."""
        for line in lines:
            self._lines.append(line)
            self._bytes += len(line.raw)
        while self._lines and self._bytes > MOST_BYTES:
            self._drop()
        self.wake()

    def wake(self) -> None:
        """Wake who waits, with or without a line."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def since(self, number: int) -> list[Line] | None:
        """The lines from a number on; None: some of them are not there any more."""
        if number < self._first:
            return None
        skipped = number - self._first
        return [line for place, line in enumerate(self._lines) if place >= skipped]

    async def news(self, number: int, timeout_s: float) -> bool:
        """Wait until there is a line of that number, or somebody wakes us; False: nothing came."""
        if number < self.end:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def clear(self) -> None:
        """Drop all lines, and let everybody who follows fall out."""
        while self._lines:
            self._drop()
        self._first += 1
        self.dropped = None

    def _drop(self) -> None:
        line = self._lines.popleft()
        self._first += 1
        self._bytes -= len(line.raw)
        if line.kind == "event":
            self.dropped = line
