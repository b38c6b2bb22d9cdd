"""
Snapshots of long runs: their folded state, kept beside the log to begin later folds at.

A snapshot is only a short cut. One that another version of the fold wrote, that can't be read, or
that the log does not confirm (its last event is read again), is as good as none.
"""

from __future__ import annotations

import inspect
import zlib
from functools import cache

import msgspec
import structlog

from mulligan._version import __version__
from mulligan.errors import MulliganError
from mulligan.events import facts, payload
from mulligan.events.payload import digest_of
from mulligan.events.store import EventStore
from mulligan.projections import (
    allowance,
    calls,
    changes,
    graph,
    invocations,
    nodes,
    output_repairs,
    repairs,
    run,
    state,
)
from mulligan.projections.state import RunState
from mulligan.schemas import plan, tool_spec

EVERY_EVENTS = 500
"""Folding so many takes 1.3 ms, a snapshot and a short tail 0.2 ms (docs/log.md)."""

MOST_BYTES = 4 << 20
"""A state that is larger even compressed is folded from its events."""

TTL_MS = 86_400_000
"""A run that nobody has touched for a day may be folded anew."""

_FOLDED_BY = (
    *(run, state, allowance, calls, changes, graph, invocations, nodes, output_repairs, repairs),
    *(facts, payload, plan, tool_spec),
)

_log = structlog.get_logger(__name__)


class Snapshot(msgspec.Struct, frozen=True):
    """A state, and the fold that it comes from."""

    fold: str
    state: RunState


@cache
def fold_version() -> str:
    """A digest of the code that folds: a snapshot counts only for the very same."""
    try:
        sources = "\0".join(inspect.getsource(module) for module in _FOLDED_BY)
    except OSError:  # installed without sources
        sources = __version__
    return digest_of(sources.encode())


def load(store: EventStore, run: str) -> RunState | None:
    """The kept state of a run, to be confirmed by the log; None: there is none that counts."""
    kept = store.snapshot(run)
    if kept is None:
        return None
    try:
        snapshot = msgspec.json.decode(zlib.decompress(kept), type=Snapshot)
    except (zlib.error, msgspec.MsgspecError) as error:
        _log.info("snapshot_ignored", run=run, reason=type(error).__name__)
        return None
    return snapshot.state if snapshot.fold == fold_version() else None


def keep(store: EventStore, state: RunState) -> None:
    """Keep a state. One that can't be kept costs time later, no more."""
    raw = msgspec.json.encode(Snapshot(fold_version(), state))
    data = zlib.compress(raw, level=1)
    if len(data) > MOST_BYTES:
        return
    try:
        store.keep_snapshot(
            state.run, state.version, data, gap_events=EVERY_EVENTS // 2, ttl_ms=TTL_MS
        )
    except MulliganError as error:
        _log.info("snapshot_not_kept", run=state.run, reason=type(error).__name__)
