"""
Live output within one process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from threading import Lock

from mulligan.events.deltas import Delta


class MemoryDeltas:
    """The `Deltas` of a process that is alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers: defaultdict[str, list[MemorySubscription]] = defaultdict(list)

    def publish(self, delta: Delta) -> None:
        """See `Deltas.publish`."""
        with self._lock:
            for reader in self._readers.get(delta.run, ()):
                reader.put(delta)

    def listened(self, runs: Iterable[str]) -> set[str]:
        """See `Deltas.listened`."""
        with self._lock:
            return {run for run in runs if self._readers.get(run)}

    def subscribe(self, run: str) -> MemorySubscription:
        """See `Deltas.subscribe`."""
        reader = MemorySubscription(self, run)
        with self._lock:
            self._readers[run].append(reader)
        return reader

    def leave(self, reader: MemorySubscription) -> None:
        """A reader listens no longer."""
        with self._lock:
            if reader in self._readers[reader.run]:
                self._readers[reader.run].remove(reader)

    def close(self) -> None:
        """There is nothing to let go of."""


class MemorySubscription:
    """A reader of `MemoryDeltas`."""

    def __init__(self, deltas: MemoryDeltas, run: str) -> None:
        self.run = run
        self._deltas = deltas
        self._come: SimpleQueue[Delta] = SimpleQueue()

    def put(self, delta: Delta) -> None:
        """Take a delta for the reader to find."""
        self._come.put(delta)

    def heard(self, wait_ms: int) -> list[Delta]:
        """See `Subscription.heard`."""
        found: list[Delta] = []
        try:
            if wait_ms > 0:
                found.append(self._come.get(timeout=wait_ms / 1000))
            while True:
                found.append(self._come.get_nowait())
        except Empty:
            return found

    def close(self) -> None:
        """See `Subscription.close`."""
        self._deltas.leave(self)
