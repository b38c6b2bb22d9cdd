"""
The queue between Dramatiq's consumers and its threads, which nobody waits at once it is closed.
"""

from __future__ import annotations

from queue import Empty, PriorityQueue
from typing import Any


class WorkQueue(PriorityQueue[Any]):
    """
    In the place of a `dramatiq.Worker`'s own, whose threads wake up again and again to see whether
    the worker ends. Here they wait for as long as nothing comes, whatever their timeout. Closed, it
    hands out what it has, and else is empty at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._closed = False

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self.mutex:
            self._closed = True
            self.not_empty.notify_all()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """See `queue.Queue.get`; `timeout` is not looked at."""
        with self.not_empty:
            self.not_empty.wait_for(lambda: self._qsize() or self._closed or not block)
            if not self._qsize():
                raise Empty
            return self._get()
