"""
The log on Redis with its archive behind it: who reads a run need not know where it lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from mulligan.errors import EventUnreadable
from mulligan.events.archive import Archive, ArchivedRun
from mulligan.events.codec import Outline, outlines_of
from mulligan.events.envelope import Envelope
from mulligan.events.payload_keys import PayloadKeys
from mulligan.events.redis_append import stored_row
from mulligan.events.redis_connection import Server, answers
from mulligan.events.redis_each import FIRST_PAGE
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.redis_streams import PAGE
from mulligan.events.store import RawEvent, ReadRun, Row


class ArchivedStore(RedisEventStore):
    """
    A `RedisEventStore` that reads retired runs, their values and their rows from `archive`.

    Reads of a retired run that the archive does not have raise `EventUnreadable`, as do those of a
    damaged one. Its row is empty then, which counts as one that has to be folded.
    """

    def __init__(
        self,
        server: str | Server,
        archive: Archive,
        *,
        partitions: int | None = None,
        payload_keys: PayloadKeys | None = None,
    ) -> None:
        super().__init__(server, partitions=partitions, payload_keys=payload_keys)
        self._archive = archive

    def read(self, run: str, after: int = 0, *, limit: int | None = None) -> list[Envelope]:
        """See `EventStore.read`."""
        events = super().read(run, after, limit=limit)
        # A page that came back full, or empty, may be all that was left to read when the run was
        # retired between two pages.
        if len(events) % PAGE or len(events) == limit or not self._retired(run):
            return events
        stop = None if limit is None else after + limit
        return self.vault.decoded(run, self._kept(run).events[after:stop], after)

    def read_each(self, after: Mapping[str, int]) -> Iterator[ReadRun]:
        """See `EventStore.read_each`."""
        for run, events in super().read_each(after):
            # As above: another page may have come too late.
            whole = isinstance(events, EventUnreadable) or 0 < len(events) < FIRST_PAGE
            yield run, events if whole or not self._retired(run) else self._kept_after(run, after)

    def _kept_after(self, run: str, after: Mapping[str, int]) -> list[RawEvent] | EventUnreadable:
        try:
            kept = list(enumerate(self._kept(run).events, start=1))[after[run] :]
        except EventUnreadable as error:
            return error
        return [(version, event.time_ms, event.raw) for version, event in kept]

    def follow(self, run: str, after: int, wait_ms: int) -> list[Envelope]:
        """See `EventStore.follow`; nothing is waited for of a run that is over."""
        if self._retired(run):
            return self.read(run, after)
        return super().follow(run, after, wait_ms)

    def outlines(self, run: str) -> list[Outline]:
        """See `EventStore.outlines`."""
        found = super().outlines(run)
        return found or outlines_of(self._kept(run).events if self._retired(run) else ())

    def payload(self, run: str, digest: str) -> bytes:
        """See `EventStore.payload`."""
        try:
            return super().payload(run, digest)
        except EventUnreadable:
            if not self._retired(run):
                raise
        value = self.vault.opened_value(run, digest, self._kept(run).payloads)
        if value is None:
            raise EventUnreadable(f"run {run!r}: the payload {digest} is missing in its file")
        return value

    def rows(
        self, projection: str, partition: int, runs: Sequence[str] | None = None
    ) -> dict[str, bytes]:
        """See `EventStore.rows`."""
        found = super().rows(projection, partition, runs)
        missing = None if runs is None else [run for run in runs if run not in found]
        retired = [run for run in self._retired_in(partition, missing) if run not in found]
        if not retired:
            return found
        kept = self.vault.opened_rows(self._archive.rows(projection, retired))
        return found | {run: kept.get(run, b"") for run in retired}

    def _retired(self, run: str) -> bool:
        row: Row | None = self.row(run)
        return row is not None and row.phase == "archived"

    def _retired_in(self, partition: int, runs: Sequence[str] | None) -> list[str]:
        """The retired runs of a partition, or those of `runs`."""
        keys = self._partition(partition)
        with answers(self._place):
            any_retired = self._client.hget(keys.meta, "archived")
            if not any_retired or (runs is not None and not runs):
                return []
            if runs is not None:
                rows = cast("list[bytes | None]", self._client.hmget(keys.runs, list(runs)))
                return [run for run, row in zip(runs, rows, strict=True) if _is_retired(row)]
        pages = self._scan(keys.runs)
        return [run.decode() for page in pages for run, row in page.items() if _is_retired(row)]

    def _kept(self, run: str) -> ArchivedRun:
        kept = self._archive.load(run)
        if kept is None:
            raise EventUnreadable(
                f"run {run!r} is archived, and not in {self._archive.place}: name the folder that "
                "it is in by MULLIGAN_ARCHIVE_DIR"
            )
        return kept


def _is_retired(row: bytes | None) -> bool:
    return row is not None and stored_row(row).phase == "archived"
