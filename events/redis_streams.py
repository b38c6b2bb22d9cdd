"""
Reading streams: pages of entries, and waiting for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import Any

from mulligan.events.redis_connection import Server, answer_timeout_s_of, answers, wire_error
from mulligan.wire import AnswerLate

PAGE = 1_000
"""Entries a command: a longer answer would keep the server from everybody else."""

LONGEST_BLOCK_MS = 1_000
"""
A blocking read holds a connection of the pool for itself, and ends before the connection's own
time-out would end it; so `close` is noticed within this time, too.
"""

Entry = tuple[str, dict[bytes, bytes]]


class Streams:
    """Entries of streams, by id."""

    def __init__(self, client: Server, place: str) -> None:
        self.client = client
        self.place = place
        self._closed = Event()
        self._block_ms = _block_ms(client)

    def entries(self, stream: str, after: str, limit: int | None) -> Iterator[Entry]:
        """Yield the entries after the id `after`, oldest first, `limit` at most."""
        left = limit
        while left is None or left > 0:
            asked = PAGE if left is None else min(PAGE, left)
            page = self._page(stream, after, asked)
            yield from page
            if len(page) < asked:
                return
            after = page[-1][0]
            left = None if left is None else left - len(page)

    def wait(self, stream: str, after: str, wait_ms: int) -> None:
        """Return once there is an entry after `after`, or `wait_ms` are over, or on `close`."""
        until_s = monotonic() + wait_ms / 1000
        while not self._closed.is_set():
            left_ms = int((until_s - monotonic()) * 1000)
            if left_ms <= 0 or self._blocked(stream, after, min(left_ms, self._block_ms)):
                return

    def close(self) -> None:
        """End all waiting."""
        self._closed.set()

    def _page(self, stream: str, after: str, count: int) -> list[Entry]:
        with answers(self.place):
            found: Any = self.client.xrange(stream, min=f"({after}", count=count)
        return [(entry_id.decode(), fields) for entry_id, fields in found]

    def _blocked(self, stream: str, after: str, block_ms: int) -> bool:
        with answers(self.place):
            try:
                return bool(self.client.xread({stream: after}, count=1, block=block_ms))
            except Exception as error:
                if not isinstance(wire_error(error), AnswerLate):
                    raise
                # The server ends a block late, by its own tick, and a short time-out of the
                # client's comes first: nothing arrived. A server that is away fails the next read.
                return False


def _block_ms(client: Server) -> int:
    timeout_s = answer_timeout_s_of(client)
    return LONGEST_BLOCK_MS if not timeout_s else min(LONGEST_BLOCK_MS, int(timeout_s * 500)) or 1
