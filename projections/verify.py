"""
Whether a run's log and what is folded from it agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from mulligan.events.envelope import Envelope
from mulligan.events.keys import partition_of
from mulligan.events.payload import Payload
from mulligan.events.store import EventStore
from mulligan.projections import recovery, trace, usage, workspace
from mulligan.projections import run as runs
from mulligan.projections.history import problems
from mulligan.projections.projector import STORED, Rows

_FOLDS = {"run": runs.fold, "trace": trace.fold, "recovery": recovery.fold, "usage": usage.fold}


def problems_of(store: EventStore, run: str, events: Sequence[Envelope]) -> list[str]:
    """
    Everything that is wrong with a run: its history, folds that differ when they are done twice,
    stored rows that differ from the fold at their version.
    """
    found = problems(events)
    row = store.row(run)
    if row is None or row.version < len(events):
        found.append(f"the index says version {row.version if row else 0}, not {len(events)}")
    for name, fold in _FOLDS.items():
        if _bytes(fold(run, events)) != _bytes(fold(run, events)):
            found.append(f"the {name} projection differs when it is folded again")
    value_of = partial(_value, store, run)
    if workspace.files(run, events, value_of) != workspace.files(run, events, value_of):
        found.append("the artifacts of its repair loops differ when they are folded again")
    for stored in STORED:
        found += _row_problems(store, stored, run, events)
    return found


def _value(store: EventStore, run: str, payload: Payload) -> Any:
    return (
        payload.value if payload.inline else msgspec.json.decode(store.payload(run, payload.digest))
    )


def _row_problems(
    store: EventStore, stored: Rows, run: str, events: Sequence[Envelope]
) -> list[str]:
    partition = partition_of(run, store.partitions())
    raw = store.rows(stored.name, partition, [run]).get(run)
    if not raw:  # of an archived run that came without one: whoever needs it folds it
        return []
    row = stored.decode(raw)
    folded = stored.fold(run, events[: row.version])
    folded.unreadable = row.unreadable  # of the code that kept the row, not of the log
    if _bytes(folded) != raw:
        return [f"the stored row of {stored.name} is not what its version's events fold to"]
    return []


def _bytes(value: object) -> bytes:
    return msgspec.json.encode(value)
