"""
The feed in memory, and the rows that follow it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from threading import Condition

from mulligan.errors import FeedTrimmed
from mulligan.events.store import FeedEntry
from mulligan.events.vault import Vault


class MemoryFeed(ABC):
    """Part of `MemoryEventStore`."""

    vault: Vault

    def __init__(self, now_ms: Callable[[], int], partitions: int) -> None:
        self._now_ms = now_ms
        self._changed = Condition()
        self._feeds: list[list[FeedEntry]] = [[] for _ in range(partitions)]
        self._trimmed = [0] * partitions
        self._rows: dict[tuple[str, int], tuple[str, dict[str, bytes]]] = {}
        self._followers: dict[tuple[str, int], int] = {}

    @abstractmethod
    def _is_archived(self, run: str) -> bool: ...

    def feed(
        self, partition: int, after: str = "0", *, limit: int = 1_000, wait_ms: int = 0
    ) -> list[FeedEntry]:
        """See `EventStore.feed`."""
        with self._changed:
            self._changed.wait_for(lambda: self._after(partition, after), wait_ms / 1000)
            if _number(after) < self._trimmed[partition]:
                raise FeedTrimmed(partition, after, f"{self._trimmed[partition]}-0")
            return self._after(partition, after)[:limit]

    def _after(self, partition: int, after: str) -> list[FeedEntry]:
        feed = self._feeds[partition]
        return feed[max(0, _number(after) - self._trimmed[partition]) :]

    def feed_entry(self, partition: int, feed_id: str) -> FeedEntry | None:
        """See `EventStore.feed_entry`."""
        with self._changed:
            return next((one for one in self._feeds[partition] if one.id == feed_id), None)

    def feed_end(self, partition: int) -> str:
        """See `EventStore.feed_end`."""
        with self._changed:
            feed = self._feeds[partition]
            return feed[-1].id if feed else "0"

    def trim_feed(self, partition: int, *, keep: int, idle_ms: int) -> int:
        """See `EventStore.trim_feed`."""
        with self._changed:
            feed = self._feeds[partition]
            if len(feed) < keep:
                return 0
            now_ms = self._now_ms()
            live = [
                _number(self.checkpoint(projection, partition))
                for (projection, of), seen_ms in self._followers.items()
                if of == partition and seen_ms + idle_ms >= now_ms
            ]
            first_kept = min([_number(feed[-keep].id), *live])
            count = max(0, first_kept - 1 - self._trimmed[partition])
            self._trimmed[partition] += count
            del feed[:count]
            return count

    def checkpoint(self, projection: str, partition: int) -> str:
        """See `EventStore.checkpoint`."""
        with self._changed:
            return self._rows.get((projection, partition), ("0", {}))[0]

    def rows(
        self, projection: str, partition: int, runs: Sequence[str] | None = None
    ) -> dict[str, bytes]:
        """See `EventStore.rows`."""
        with self._changed:
            rows = self._rows.get((projection, partition), ("0", {}))[1]
            found = {run: row for run, row in rows.items() if runs is None or run in runs}
        return self.vault.opened_rows(found)

    def commit_rows(
        self,
        projection: str,
        partition: int,
        *,
        expected: str,
        checkpoint: str,
        rows: Mapping[str, bytes],
    ) -> bool:
        """See `EventStore.commit_rows`."""
        sealed = self.vault.sealed_rows(rows)
        with self._changed:
            current, stored = self._rows.get((projection, partition), ("0", {}))
            if current != expected:
                return False
            kept = {run: row for run, row in sealed.items() if not self._is_archived(run)}
            self._rows[projection, partition] = (checkpoint, {**stored, **kept})
            self._followers[projection, partition] = self._now_ms()
            return True

    def switch_rows(self, source: str, projection: str, partition: int, *, expected: str) -> bool:
        """See `EventStore.switch_rows`."""
        with self._changed:
            if self._rows.get((source, partition), ("", {}))[0] != expected:
                return False
            self._rows[projection, partition] = self._rows.pop((source, partition))
            self._followers[projection, partition] = self._followers.pop((source, partition))
            return True

    def _drop_row(self, run: str, projections: Sequence[str]) -> None:
        for (projection, _), (_, rows) in self._rows.items():
            if projection in projections:
                rows.pop(run, None)

    def drop_rows(self, projection: str, partition: int) -> None:
        """See `EventStore.drop_rows`."""
        with self._changed:
            self._rows.pop((projection, partition), None)
            self._followers.pop((projection, partition), None)


def _number(feed_id: str) -> int:
    return int(feed_id.partition("-")[0])
