"""
The feed on Redis, and the rows that follow it: the half of the store that projectors use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from mulligan.errors import FeedTrimmed
from mulligan.events.keys import Keys
from mulligan.events.redis_connection import Server, answers
from mulligan.events.redis_scripts import Scripts
from mulligan.events.redis_streams import Streams
from mulligan.events.store import FeedEntry
from mulligan.events.vault import Vault


class RedisFeed(ABC):
    """Part of `RedisEventStore`, which says how the server and a partition are found."""

    _client: Server
    _place: str
    _scripts: Scripts
    _streams: Streams
    vault: Vault

    @abstractmethod
    def _partition(self, partition: int) -> Keys: ...

    @abstractmethod
    def _scan(self, key: str) -> Iterator[dict[bytes, bytes]]: ...

    def feed(
        self, partition: int, after: str = "0", *, limit: int = 1_000, wait_ms: int = 0
    ) -> list[FeedEntry]:
        """See `EventStore.feed`."""
        keys = self._partition(partition)
        stream = keys.feed
        if wait_ms:
            self._streams.wait(stream, after, wait_ms)
        found = [
            _entry(entry_id.encode(), fields)
            for entry_id, fields in self._streams.entries(stream, after, limit)
        ]
        # Asked after the reading: what is trimmed in between is told as missed, never skipped.
        with answers(self._place):
            trimmed = cast("bytes | None", self._client.hget(keys.meta, "trimmed"))
        if trimmed is not None and order_of(after) < order_of(trimmed.decode()):
            raise FeedTrimmed(partition, after, trimmed.decode())
        return found

    def feed_entry(self, partition: int, feed_id: str) -> FeedEntry | None:
        """See `EventStore.feed_entry`."""
        with answers(self._place):
            found: Any = self._client.xrange(self._partition(partition).feed, feed_id, feed_id)
        return _entry(*found[0]) if found else None

    def feed_end(self, partition: int) -> str:
        """See `EventStore.feed_end`."""
        with answers(self._place):
            newest: Any = self._client.xrevrange(self._partition(partition).feed, count=1)
        return newest[0][0].decode() if newest else "0"

    def trim_feed(self, partition: int, *, keep: int, idle_ms: int) -> int:
        """See `EventStore.trim_feed`."""
        keys = self._partition(partition)
        with answers(self._place):
            return int(
                self._scripts.call(
                    "trim_feed", [keys.feed, keys.followers, keys.meta], [keep, idle_ms]
                )
            )

    def checkpoint(self, projection: str, partition: int) -> str:
        """See `EventStore.checkpoint`."""
        key = self._partition(partition).checkpoint(projection)
        with answers(self._place):
            stored = cast("bytes | None", self._client.get(key))
        return (stored or b"0").decode()

    def rows(
        self, projection: str, partition: int, runs: Sequence[str] | None = None
    ) -> dict[str, bytes]:
        """See `EventStore.rows`."""
        key = self._partition(partition).rows(projection)
        if runs is None:
            # A page at a time: all rows of a large log at once would keep others waiting.
            pages = ({run.decode(): row for run, row in page.items()} for page in self._scan(key))
            return {run: row for page in pages for run, row in self.vault.opened_rows(page).items()}
        with answers(self._place):
            rows = cast("list[bytes | None]", self._client.hmget(key, list(runs))) if runs else []
        found = {run: row for run, row in zip(runs, rows, strict=True) if row is not None}
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
        keys = self._partition(partition)
        flat = [part for pair in self.vault.sealed_rows(rows).items() for part in pair]
        with answers(self._place):
            reply = self._scripts.call(
                "commit_rows",
                [keys.rows(projection), keys.checkpoint(projection), keys.followers, keys.runs],
                [projection, expected, checkpoint, *flat],
            )
        return bool(reply)

    def switch_rows(self, source: str, projection: str, partition: int, *, expected: str) -> bool:
        """See `EventStore.switch_rows`."""
        keys = self._partition(partition)
        names = (source, projection)
        pairs = [key for name in names for key in (keys.rows(name), keys.checkpoint(name))]
        with answers(self._place):
            reply = self._scripts.call(
                "switch_rows", [*pairs, keys.followers], [source, projection, expected]
            )
        return bool(reply)

    def drop_rows(self, projection: str, partition: int) -> None:
        """See `EventStore.drop_rows`."""
        keys = self._partition(partition)
        with answers(self._place):
            self._client.unlink(keys.rows(projection), keys.checkpoint(projection))
            self._client.hdel(keys.followers, projection)


def order_of(feed_id: str) -> tuple[int, int]:
    """What feed ids are ordered by: milliseconds, and the place within."""
    milliseconds, _, place = feed_id.partition("-")
    return int(milliseconds), int(place or 0)


def _entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> FeedEntry:
    return FeedEntry(entry_id.decode(), fields[b"r"].decode(), int(fields[b"v"]), int(fields[b"n"]))
