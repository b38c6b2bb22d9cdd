"""
Stored rows: what they are of a run, and how they are taken on as its log grows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.envelope import Envelope
from mulligan.events.keys import partition_of
from mulligan.events.store import EventStore
from mulligan.events.unopened import unopened
from mulligan.projections import summary, usage
from mulligan.projections.row_changes import Event, RowChange
from mulligan.projections.summary import RunSummary
from mulligan.projections.usage import RunUsage


class Rows(msgspec.Struct, frozen=True):
    """
    A stored projection: its name, the empty row of a run, what the event of a tag changes in a row
    (most change nothing), and how a row is told which event it ends with.
    """

    name: str
    empty: Callable[[str], Any]
    changes: Mapping[str, tuple[RowChange, ...]]
    end_with: RowChange
    decode: Callable[[bytes], Any]

    def fold(self, run: str, events: Iterable[Envelope]) -> Any:
        """The row of a run with these events, from its first on."""
        row = self.empty(run)
        self.take_on(row, events)
        return row

    def take_on(self, row: Any, events: Iterable[Event]) -> None:
        """
        Take a row on by the events that follow, as far as they can be read.

        Raises:
            EventUnreadable: one can't; the row stands at the one before.
        """
        changes, last = self.changes, None
        try:
            for event in events:
                for change in changes.get(event.type, ()):
                    change(row, event)
                last = event
        finally:
            if last is not None:
                self.end_with(row, last)

    def encode(self, row: Any) -> bytes:
        """A row as it is stored."""
        return msgspec.json.encode(row)


SUMMARIES = Rows(
    "run",
    lambda run: RunSummary(run=run),
    summary.CHANGES,
    summary.end_with,
    msgspec.json.Decoder(RunSummary).decode,
)
USAGE = Rows(
    "usage",
    lambda run: RunUsage(run=run),
    usage.CHANGES,
    usage.end_with,
    msgspec.json.Decoder(RunUsage).decode,
)
STORED = (SUMMARIES, USAGE)
"""The projections that have rows; the others are folded when they are read."""


def rebuilt(rows: Rows) -> str:
    """The name under which the rows of a projection are rebuilt, beside the live ones."""
    return f"{rows.name}~rebuilt"


def fold_each(
    store: EventStore, rows: Rows, stored: Mapping[str, bytes | None]
) -> Iterator[tuple[str, Any]]:
    """
    The rows of runs, taken on from the stored ones. A run with an event that this code can't read
    has the row of what is before it, marked as such.
    """
    known = {run: _decoded(rows, run, raw) for run, raw in stored.items()}
    anew = []
    # The last event that a row holds is read again: another one there means that the server was set
    # back, and the row starts anew.
    after = {run: max(at.version - 1, 0) for run, at in known.items()}
    for run, events, ends in _read(store, after):
        if _set_back(known[run], events, ends):
            anew.append(run)
        else:
            yield run, _taken_on(rows, known[run], events, ends)
    for run, (row,) in fold_whole(store, [rows], anew):
        yield run, row


def fold_whole(
    store: EventStore, kinds: Sequence[Rows], runs: Iterable[str]
) -> Iterator[tuple[str, list[Any]]]:
    """As `fold_each`, from nothing on: the rows that each run has in some projections."""
    for run, events, ends in _read(store, dict.fromkeys(runs, 0)):
        yield run, [_taken_on(rows, rows.empty(run), events, ends) for rows in kinds]


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
    shown: dict[str, Any] = {}
    again: dict[str, bytes] = {}
    for partition, some in wanted.items():
        for run, stored in store.rows(rows.name, partition, some).items():
            row = shown[run] = _decoded(rows, run, stored)
            if not row.version or row.unreadable is not None:
                again[run] = stored
    return [*(shown | dict(fold_each(store, rows, again))).values()]


def _decoded(rows: Rows, run: str, stored: bytes | None) -> Any:
    """A stored row; one that is none of this code's counts as missing."""
    if stored is None:
        return rows.empty(run)
    try:
        return rows.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return rows.empty(run)


def _read(
    store: EventStore, after: Mapping[str, int]
) -> Iterator[tuple[str, list[Event], EventUnreadable | None]]:
    """The events of some runs, each above a version, with what ends those that can't be read."""
    vault = store.vault
    if vault.keys is not None:
        vault.keys_of(list(after))  # in one look, instead of one for each run
    for run, found in store.read_each(after):
        yield run, *unopened(run, found, vault.key_named)


def _set_back(row: Any, events: list[Event], ends: EventUnreadable | None) -> bool:
    """Whether the log has another event where this row ends, or none."""
    if not row.version:
        return False
    return events[0].id != row.last_event if events else ends is None


def _taken_on(rows: Rows, row: Any, events: list[Event], ends: EventUnreadable | None) -> Any:
    known = row.version
    try:
        rows.take_on(row, [event for event in events if event.version > known] if known else events)
    except EventUnreadable as error:
        ends = error
    row.unreadable = None if ends is None else str(ends)
    return row
