"""
Moves ended runs from the log's server to the archive.

A run is read whole; kept, durably, and read back; and only then taken off the server, in one step
that looks again whether it is what was read. Killed in between, it is where it was, perhaps with a
copy in the archive that nobody reads; the next time it is kept anew and taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from mulligan.errors import EventUnreadable, RunUnknown
from mulligan.events.archive import Archive, ArchivedRun
from mulligan.events.envelope import Envelope
from mulligan.events.payload import payloads_of
from mulligan.events.store import EventStore, Retired, Retirement, Row
from mulligan.events.tasks import (
    node_task,
    overseer_task,
    repair_task,
    run_task,
    subagent_task,
)
from mulligan.projections.rows import STORED, rebuilt
from mulligan.projections.run import fold
from mulligan.projections.state import RunState

BATCH_RUNS = 200
BATCH_BYTES = 32 << 20
"""What is kept at once, and then taken off: the folder's names are synced once a batch."""

NOT_ENDED = "it has not ended; only ended runs are archived"
REFUSALS: dict[Retirement, str] = {
    "OPEN": NOT_ENDED,
    "MOVED": "it has changed meanwhile; archive it again",
    "HELD": "a worker still holds a task of it; archive it when the lease is over",
}


T = TypeVar("T")


class Archived(msgspec.Struct, kw_only=True):
    """The runs that were archived, and those that could not be, with the reason."""

    runs: list[str] = []
    left: dict[str, str] = {}


class Archiver:
    """Archives runs of `store` in `archive`."""

    def __init__(self, store: EventStore, archive: Archive) -> None:
        self._store = store
        self._archive = archive

    def archive(self, runs: Iterable[str]) -> Archived:
        """
        Archive runs; those that were before count as archived.

        Raises:
            RunUnknown: there is no such run.
            ArchiveUnfit: the archive can't keep them; those of the batch stay where they were.
        """
        done = Archived()
        for batch in _batches(self._read(runs, done)):
            self._archive.keep([kept for kept, _ in batch])
            for kept, retired in batch:
                self._settle(kept.run, self._store.retire(retired), done)
        return done

    def refold(self) -> int:
        """
        Fold the rows of archived runs anew, as this code folds them, and return how many had other
        ones, or none. Runs that can't be read keep theirs.
        """
        changed = 0
        for batch in _batches(self._refolded()):
            self._archive.keep([kept for kept, _ in batch])
            changed += len(batch)
        return changed

    def _refolded(self) -> Iterator[tuple[ArchivedRun, None]]:
        for run, row in self._store.runs():
            try:
                kept = self._archive.load(run) if row.phase == "archived" else None
                if kept is None:
                    continue
                rows = _rows(run, self._store.vault.decoded(run, kept.events))
            except EventUnreadable:
                continue
            there = {name: self._listed(run, name) for name in rows}
            if not rows == self._opened(run, kept.rows) == self._opened(run, there):
                yield replace(kept, rows=self._sealed(run, rows)), None

    def _listed(self, run: str, name: str) -> bytes:
        return self._archive.rows(name, [run]).get(run, b"")

    def _opened(self, run: str, rows: Mapping[str, bytes]) -> dict[str, bytes]:
        """A run's kept rows, by projection, as they were before they were encrypted."""
        opened = self._store.vault.opened_rows
        return {name: opened({run: row})[run] for name, row in rows.items()}

    def _sealed(self, run: str, rows: Mapping[str, bytes]) -> dict[str, bytes]:
        sealed = self._store.vault.sealed_rows
        return {name: sealed({run: row})[run] for name, row in rows.items()}

    def _settle(self, run: str, came: Retirement, done: Archived) -> None:
        if came == "GONE":
            raise RunUnknown(run)
        if came == "OK":
            done.runs.append(run)
        else:
            done.left[run] = REFUSALS[came]

    def _read(self, runs: Iterable[str], done: Archived) -> Iterator[tuple[ArchivedRun, Retired]]:
        """Those that can be archived; the others are told of in `done`."""
        for run in dict.fromkeys(runs):
            row = self._row(run)
            try:
                if row.phase == "closed":
                    yield self._whole(run, row.version)
                    continue
            except EventUnreadable as error:
                row = self._row(run)  # another may have archived it meanwhile
                done.left[run] = str(error)
            if row.phase == "archived":
                done.left.pop(run, None)
                done.runs.append(run)
            elif row.phase != "closed":
                done.left[run] = NOT_ENDED

    def _row(self, run: str) -> Row:
        row = self._store.row(run)
        if row is None:
            raise RunUnknown(run)
        return row

    def _whole(self, run: str, version: int) -> tuple[ArchivedRun, Retired]:
        stored = tuple(self._store.stored(run))
        if len(stored) != version:
            raise EventUnreadable(
                f"run {run!r} has {len(stored)} events of {version}: `mulligan verify` names them"
            )
        events = self._store.vault.decoded(run, stored)
        payloads = {digest: self._store.payload(run, digest) for digest in _digests(events)}
        kept = ArchivedRun(
            run=run,
            events=stored,
            payloads=self._store.vault.sealed_values(run, payloads),
            rows=self._sealed(run, _rows(run, events)),
        )
        retired = Retired(
            run=run,
            version=version,
            last_event=stored[-1].raw,
            payloads=tuple(payloads),
            tasks=tuple(_tasks(fold(run, events))),
            projections=tuple(name for rows in STORED for name in (rows.name, rebuilt(rows))),
        )
        return kept, retired


def _batches(runs: Iterator[tuple[ArchivedRun, T]]) -> Iterator[list[tuple[ArchivedRun, T]]]:
    """Runs, each with what goes along, as many at once as are kept together."""
    batch: list[tuple[ArchivedRun, T]] = []
    size = 0
    for kept, along in runs:
        batch.append((kept, along))
        size += sum(len(event.raw) for event in kept.events) + sum(map(len, kept.payloads.values()))
        if len(batch) >= BATCH_RUNS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _rows(run: str, events: list[Envelope]) -> dict[str, bytes]:
    """Its row of each stored projection."""
    return {rows.name: msgspec.json.encode(rows.fold(run, events)) for rows in STORED}


def _digests(events: list[Envelope]) -> list[str]:
    """Of the large values that the events name."""
    return list(
        dict.fromkeys(
            payload.digest
            for event in events
            for payload in payloads_of(event.data)
            if not payload.inline
        )
    )


def _tasks(state: RunState) -> Iterator[str]:
    """Every task that the run may have had: one that waited when it ended is still there."""
    yield run_task(state.run)
    for node in state.nodes:
        yield node_task(state.run, node)
    for node in state.repairs:
        yield repair_task(state.run, node)
    for invocation in state.invocations.values():
        if invocation.parent is not None:
            yield subagent_task(state.run, invocation.id)
        for attempt in range(1, invocation.attempt + 1):
            yield overseer_task(state.run, invocation.id, attempt)
