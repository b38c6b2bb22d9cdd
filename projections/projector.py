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
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from mulligan.errors import EventUnreadable, FeedTrimmed
from mulligan.events.crash_points import reach
from mulligan.events.envelope import Envelope
from mulligan.events.keys import partition_of
from mulligan.events.store import EventStore
from mulligan.projections import summary, usage
from mulligan.projections.summary import RunSummary
from mulligan.projections.usage import RunUsage

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


class Rows(msgspec.Struct, frozen=True):
    """A stored projection: its name, the empty row of a run, and how an event changes a row."""

    name: str
    empty: Callable[[str], Any]
    evolve: Callable[[Any, Envelope], None]
    decode: Callable[[bytes], Any]

    def fold(self, run: str, events: Iterable[Envelope]) -> Any:
        """The row of a run with these events, from its first on."""
        row = self.empty(run)
        for event in events:
            self.evolve(row, event)
        return row


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


def rebuilt(rows: Rows) -> str:
    """The name under which the rows of a projection are rebuilt, beside the live ones."""
    return f"{rows.name}~rebuilt"


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

    def rebuild(self, rows: Rows, partition: int) -> bool:
        """
        Fold a partition's rows anew from its runs, beside the live ones, and switch; False: another
        rebuild has taken over.
        """
        name = rebuilt(rows)
        # A checkpoint before all entries, and this rebuild's alone: whoever drops it and begins
        # again ends this one, and nothing is trimmed meanwhile.
        mine = f"0-{secrets.randbits(NONCE_BITS)}"
        self._store.drop_rows(name, partition)
        if not self._commit(name, partition, "0", mine, {}):
            return False
        end = self._store.feed_end(partition)
        for runs in _batches(self._runs_of(partition)):
            folded = {run: self._row(rows, run, None) for run in runs}
            if not self._commit(name, partition, mine, mine, folded):
                return False
        if not self._commit(name, partition, mine, end, {}):
            return False
        self._follow(rows, name, partition, 0)
        checkpoint = self._store.checkpoint(name, partition)
        return self._store.switch_rows(name, rows.name, partition, expected=checkpoint)

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
        if self.rebuild(rows, partition):
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
            changed = {run: self._row(rows, run, stored.get(run)) for run in runs}
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

    def _row(self, rows: Rows, run: str, stored: bytes | None) -> bytes:
        row = _folded(self._store, rows, run, stored)
        if row.unreadable is None:
            self._unreadable.discard(run)
        elif run not in self._unreadable:
            self._unreadable.add(run)
            self._told(f"skipped: {row.unreadable}")
        return msgspec.json.encode(row)


def _folded(store: EventStore, rows: Rows, run: str, stored: bytes | None) -> Any:
    """A run's row, taken on from the stored one as far as this code can read."""
    row = _decoded(rows, run, stored)
    # The last event that the row holds is read again: another one there means that the server was
    # set back, and the row starts anew.
    events, unreadable = _readable(store, run, max(row.version - 1, 0))
    set_back = events[0].id != row.last_event if events else unreadable is None
    if row.version and set_back:
        row = rows.empty(run)
        events, unreadable = _readable(store, run, 0)
    for event in events:
        if event.version > row.version:
            rows.evolve(row, event)
    row.unreadable = unreadable
    return row


def _decoded(rows: Rows, run: str, stored: bytes | None) -> Any:
    """A stored row; one that is none of this code's counts as missing."""
    if stored is None:
        return rows.empty(run)
    try:
        return rows.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return rows.empty(run)


def _readable(store: EventStore, run: str, after: int) -> tuple[list[Envelope], str | None]:
    """A run's events above version `after`, up to one that can't be read, and what that is."""
    try:
        return store.read(run, after), None
    except EventUnreadable as error:
        count = (error.version or 0) - after - 1
        return store.read(run, after, limit=count) if count > 0 else [], str(error)


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


def read_rows(store: EventStore, rows: Rows, runs: Collection[str] | None = None) -> list[Any]:
    """
    Every row of a stored projection, or those of `runs`, all partitions together, in no order. What
    another code could not read is looked at again: it may have been too old.
    """
    partitions = store.partitions()
    wanted: dict[int, list[str] | None] = dict.fromkeys(range(partitions))
    if runs is not None:
        of = partial(partition_of, partitions=partitions)
        wanted = {p: [run for run in runs if of(run) == p] for p in {of(run) for run in runs}}
    return [
        _shown(store, rows, run, stored)
        for partition, some in wanted.items()
        for run, stored in store.rows(rows.name, partition, some).items()
    ]


def _shown(store: EventStore, rows: Rows, run: str, stored: bytes) -> Any:
    row = _decoded(rows, run, stored)
    as_stored = row.version and row.unreadable is None
    return row if as_stored else _folded(store, rows, run, stored)
