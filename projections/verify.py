"""
Whether a run's log and what is folded from it agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.envelope import Envelope
from mulligan.events.keys import partition_of
from mulligan.events.payload import Payload, payloads_of
from mulligan.events.store import EventStore
from mulligan.projections import recovery, trace, usage, workspace
from mulligan.projections import run as runs
from mulligan.projections.history import problems
from mulligan.projections.problem import Problem
from mulligan.projections.rows import STORED, Rows

_FOLDS = {"run": runs.fold, "trace": trace.fold, "recovery": recovery.fold, "usage": usage.fold}


def problems_of(store: EventStore, run: str, events: Sequence[Envelope]) -> list[Problem]:
    """
    Everything that is wrong with a run: its history, what the index or a large value shows to be
    missing, folds that differ when they are done twice, stored rows that differ from the fold at
    their version.
    """
    lost = list(_lost_values(store, run, events))
    found = [*problems(events), *_index_problems(store, run, events), *lost]
    for name, fold in _FOLDS.items():
        if _bytes(fold(run, events)) != _bytes(fold(run, events)):
            again = f"the {name} projection differs when it is folded again"
            found.append(Problem("fold_differs", again, run))
    value_of = partial(_value, store, run)
    if not lost and workspace.files(run, events, value_of) != workspace.files(
        run, events, value_of
    ):
        again = "the artifacts of its repair loops differ when they are folded again"
        found.append(Problem("fold_differs", again, run))
    for stored in STORED:
        found += _row_problems(store, stored, run, events)
    return found


def _index_problems(store: EventStore, run: str, events: Sequence[Envelope]) -> Iterator[Problem]:
    """The index knows of as many events as there are; a run that goes on may have got more."""
    row = store.row(run)
    known, last = row.version if row else 0, events[-1].version if events else 0
    if known < last or (known > last and not store.read(run, last, limit=1)):
        yield Problem("append_lost", f"the index says version {known}, the log ends at {last}", run)


def _lost_values(store: EventStore, run: str, events: Sequence[Envelope]) -> Iterator[Problem]:
    """Each large value that an event names by its digest is there, and has it."""
    payloads = (payload for event in events for payload in payloads_of(event.data))
    for digest in dict.fromkeys(one.digest for one in payloads if not one.inline):
        try:
            store.payload(run, digest)
        except EventUnreadable as error:
            yield Problem("append_lost", str(error), run)


def _value(store: EventStore, run: str, payload: Payload) -> Any:
    return (
        payload.value if payload.inline else msgspec.json.decode(store.payload(run, payload.digest))
    )


def _row_problems(
    store: EventStore, stored: Rows, run: str, events: Sequence[Envelope]
) -> list[Problem]:
    partition = partition_of(run, store.partitions())
    raw = store.rows(stored.name, partition, [run]).get(run)
    if not raw:  # of an archived run that came without one: whoever needs it folds it
        return []
    row = stored.decode(raw)
    folded = stored.fold(run, events[: row.version])
    folded.unreadable = row.unreadable  # of the code that kept the row, not of the log
    if _bytes(folded) != raw:
        wrong = f"the stored row of {stored.name} is not what its version's events fold to"
        return [Problem("fold_differs", wrong, run)]
    return []


def _bytes(value: object) -> bytes:
    return msgspec.json.encode(value)
