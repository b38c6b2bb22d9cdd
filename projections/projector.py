"""
The projector: follows the feed and keeps one row a run and projection, with its checkpoint.

Rows and checkpoint are written together, and only if the checkpoint is what was read: several
projectors do no harm, and one that is behind or killed is caught up by whoever comes next. A run
with an event that this code can't read keeps the row of what is before it, marked as such; others
are not held up.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mulligan.errors import FeedTrimmed
from mulligan.events.crash_points import reach
from mulligan.events.keys import partition_of
from mulligan.events.store import EventStore
from mulligan.projections.rows import STORED, Rows, fold_each, fold_whole, rebuilt

BATCH = 500
"""Feed entries read at a time, and runs rebuilt."""

LAG_LOOK = 1_000
SAY_EVERY_ROUNDS = 100
"""A projector with nothing to do says so often that it still follows; so does each new one."""

NONCE_BITS = 48
PATIENCE_S = 60.0
"""
How long a projector lets another's rebuild go on: two that begin again whenever the other has would
never end.
"""


class Projector:
    """
    Keeps the rows of all partitions; safe to run in any number of processes.

    Args:
        told: hears, in a sentence, what a person should know: that it fell behind a trim of the
            feed, and rebuilds; that a run can't be read any further.
        clock: monotonic seconds, for one that goes on for long.
    """

    def __init__(
        self,
        store: EventStore,
        told: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._store = store
        self._told = told
        self._rounds = 0
        self._clock = clock
        self._left_until_s: dict[tuple[str, int], float] = {}
        self._unreadable: set[str] = set()

    def catch_up(self, wait_ms: int = 0) -> int:
        """
        Take in what is new and return how many feed entries that was, for the projection that
        lacked most of each partition. With `wait_ms`, wait so long for something to come, a
        partition after another. What fell behind a trim is rebuilt.
        """
        count = 0
        partitions = self._store.partitions()
        present = self._rounds % SAY_EVERY_ROUNDS == 0
        self._rounds += 1
        for partition in range(partitions):
            taken = []
            for rows in STORED:
                wait = wait_ms // partitions if rows is STORED[0] else 0
                if present:
                    self._say_present(rows, partition)
                taken.append(self._caught_up(rows, partition, wait))
            count += max(taken)
        return count

    def rebuild(self, kinds: Sequence[Rows], partition: int) -> list[Rows]:
        """
        Fold a partition's rows of some projections anew from its runs, each read once, beside the
        live ones, and switch. Answers those that were; another rebuild has taken over the others.
        """
        # A checkpoint before all entries, and this rebuild's alone: whoever drops it and begins
        # again ends this one, and nothing is trimmed meanwhile.
        mine = f"0-{secrets.randbits(NONCE_BITS)}"
        going = [rows for rows in kinds if self._begin(rows, partition, mine)]
        end = self._store.feed_end(partition)
        for runs in _batches(self._runs_of(partition)) if going else ():
            folded = list(fold_whole(self._store, going, runs))
            going = [
                rows
                for place, rows in enumerate(going)
                if self._add(rows, partition, mine, {run: each[place] for run, each in folded})
            ]
        return [rows for rows in going if self._switch(rows, partition, mine, end)]

    def _begin(self, rows: Rows, partition: int, checkpoint: str) -> bool:
        self._store.drop_rows(rebuilt(rows), partition)
        return self._commit(rebuilt(rows), partition, "0", checkpoint, {})

    def _add(self, rows: Rows, partition: int, checkpoint: str, folded: Mapping[str, Any]) -> bool:
        encoded = self._encoded(rows, folded)
        return self._commit(rebuilt(rows), partition, checkpoint, checkpoint, encoded)

    def _switch(self, rows: Rows, partition: int, checkpoint: str, end: str) -> bool:
        """Take in what came since a rebuild began, and let its rows be the live ones."""
        name = rebuilt(rows)
        if not self._commit(name, partition, checkpoint, end, {}):
            return False
        self._follow(rows, name, partition, 0)
        followed = self._store.checkpoint(name, partition)
        return self._store.switch_rows(name, rows.name, partition, expected=followed)

    def _caught_up(self, rows: Rows, partition: int, wait_ms: int) -> int:
        try:
            return self._follow(rows, rows.name, partition, wait_ms)
        except FeedTrimmed as gap:
            return self._rebuilt(rows, partition, wait_ms, gap)

    def _rebuilt(self, rows: Rows, partition: int, wait_ms: int, gap: FeedTrimmed) -> int:
        """Rebuild what fell behind a trim, unless another has just taken over from this one."""
        if self._clock() < self._left_until_s.get((rows.name, partition), 0.0):
            self._store.feed(partition, self._store.feed_end(partition), wait_ms=wait_ms)
            return 0
        self._told(
            f"the rows of {rows.name!r} (partition {partition}) stand at {gap.after}, and the "
            f"feed was trimmed up to {gap.trimmed}: they are rebuilt from the runs"
        )
        if self.rebuild([rows], partition):
            return self._follow(rows, rows.name, partition, 0)
        self._told(f"another rebuild of {rows.name!r} has taken over; until it ends, rows are old")
        self._left_until_s[rows.name, partition] = self._clock() + PATIENCE_S
        return 0

    def _follow(self, rows: Rows, name: str, partition: int, wait_ms: int) -> int:
        count = 0
        while True:
            after = self._store.checkpoint(name, partition)
            entries = self._store.feed(partition, after, limit=BATCH, wait_ms=wait_ms)
            if not entries:
                return count
            runs = list(dict.fromkeys(entry.run for entry in entries))
            stored = self._store.rows(name, partition, runs)
            known = {run: stored.get(run) for run in runs}
            changed = self._encoded(rows, dict(fold_each(self._store, rows, known)))
            reach("rows.before")
            self._commit(name, partition, after, entries[-1].id, changed)
            reach("rows.after")
            count += len(entries)
            wait_ms = 0
            if len(entries) < BATCH:
                return count

    def _say_present(self, rows: Rows, partition: int) -> None:
        after = self._store.checkpoint(rows.name, partition)
        self._commit(rows.name, partition, after, after, {})

    def _commit(
        self, name: str, partition: int, expected: str, checkpoint: str, rows: dict[str, bytes]
    ) -> bool:
        return self._store.commit_rows(
            name, partition, expected=expected, checkpoint=checkpoint, rows=rows
        )

    def _runs_of(self, partition: int) -> Iterator[str]:
        partitions = self._store.partitions()
        for run, row in self._store.runs():
            # The rows of archived runs are with them.
            if partition_of(run, partitions) == partition and row.phase != "archived":
                yield run

    def _encoded(self, rows: Rows, folded: Mapping[str, Any]) -> dict[str, bytes]:
        """Rows as they are stored; what can't be read any further is told."""
        for run, row in folded.items():
            self._tell(run, row.unreadable)
        return {run: rows.encode(row) for run, row in folded.items()}

    def _tell(self, run: str, unreadable: str | None) -> None:
        if unreadable is None:
            self._unreadable.discard(run)
        elif run not in self._unreadable:
            self._unreadable.add(run)
            self._told(f"skipped: {unreadable}")


def _batches(runs: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(runs, BATCH)):
        yield batch


def lag(store: EventStore, rows: Rows) -> int:
    """
    Feed entries that a projection has not taken in, at most `LAG_LOOK` a partition counted.

    Raises:
        FeedTrimmed: it fell behind a trim; the next projector rebuilds it.
    """
    return sum(
        len(store.feed(partition, store.checkpoint(rows.name, partition), limit=LAG_LOOK))
        for partition in range(store.partitions())
    )
