"""
The projector: follows the feed and keeps one row a run and projection, with its checkpoint.

Rows and checkpoint are written together, and only if the checkpoint is what was read: several
projectors do no harm, and one that is behind or killed is caught up by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore, FeedEntry
from mulligan.projections import summary, usage
from mulligan.projections.summary import RunSummary
from mulligan.projections.usage import RunUsage

BATCH = 500
"""Feed entries read at a time."""


class Rows(msgspec.Struct, frozen=True):
    """A stored projection: its name, the empty row of a run, and how an event changes a row."""

    name: str
    empty: Callable[[str], Any]
    evolve: Callable[[Any, Envelope], None]
    decode: Callable[[bytes], Any]


SUMMARIES = Rows(
    "run",
    lambda run: RunSummary(run=run),
    summary.evolve,
    msgspec.json.Decoder(RunSummary).decode,
)
USAGE = Rows(
    "usage", lambda run: RunUsage(run=run), usage.evolve, msgspec.json.Decoder(RunUsage).decode
)
STORED = (SUMMARIES, USAGE)
"""The projections that have rows; the others are folded when they are read."""


class Projector:
    """Keeps the rows of all partitions; safe to run in any number of processes."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def catch_up(self, wait_ms: int = 0) -> int:
        """
        Take in what is new and return how many feed entries that was. With `wait_ms`, wait so long
        for the first where there is only one partition.
        """
        count = 0
        partitions = self._store.partitions()
        for partition in range(partitions):
            for rows in STORED:
                wait = wait_ms if partitions == 1 and rows is STORED[0] else 0
                count += self._partition(rows, partition, wait)
        return count

    def _partition(self, rows: Rows, partition: int, wait_ms: int) -> int:
        count = 0
        while True:
            after = self._store.checkpoint(rows.name, partition)
            entries = self._store.feed(partition, after, limit=BATCH, wait_ms=wait_ms)
            if not entries:
                return count
            self._store.commit_rows(
                rows.name,
                partition,
                expected=after,
                checkpoint=entries[-1].id,
                rows=self._changed(rows, partition, entries),
            )
            count += len(entries)
            wait_ms = 0
            if len(entries) < BATCH:
                return count

    def _changed(self, rows: Rows, partition: int, entries: list[FeedEntry]) -> dict[str, bytes]:
        """The rows of the runs that the entries name, as of those runs' newest events."""
        runs = list(dict.fromkeys(entry.run for entry in entries))
        stored = self._store.rows(rows.name, partition, runs)
        return {run: self._row(rows, run, stored.get(run)) for run in runs}

    def _row(self, rows: Rows, run: str, stored: bytes | None) -> bytes:
        row = rows.decode(stored) if stored is not None else rows.empty(run)
        # The last event that the row holds is read again: another one there means that the server
        # was set back, and the row starts anew.
        events = self._store.read(run, after=max(row.version - 1, 0))
        if row.version and (not events or events[0].id != row.last_event):
            row, events = rows.empty(run), self._store.read(run)
        for event in events:
            if event.version > row.version:
                rows.evolve(row, event)
        return msgspec.json.encode(row)


def read_rows(store: EventStore, rows: Rows) -> list[Any]:
    """Every row of a stored projection, all partitions together, in no order."""
    return [
        rows.decode(row)
        for partition in range(store.partitions())
        for row in store.rows(rows.name, partition).values()
    ]
