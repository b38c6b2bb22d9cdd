"""
Folded runs, one a process: shared by all tasks of a run that this process works.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

from mulligan.actors import snapshots
from mulligan.events.envelope import Envelope
from mulligan.events.payload import Payload
from mulligan.events.store import Appended, EventStore
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState

MAX_RUNS = 1_000
MAX_VALUES_BYTES = 64 * 1024 * 1024
"""Of their JSON; as objects they take a few times as much."""


class Fold:
    """A run's state in this process, taken forward as the log grows; safe for use by threads."""

    def __init__(self, run: str, store: EventStore) -> None:
        self.run = run
        self._store = store
        self._lock = threading.Lock()
        self._state = RunState(run=run)
        self._kept_version = 0

    def branch(self) -> RunState:
        """The state as it is known here, to decide on."""
        with self._lock:
            return self._state.branch()

    @property
    def code_path(self) -> tuple[str, ...]:
        """The folders beside which the workflow's own modules are found."""
        return self._state.plan.code_path if self._state.plan is not None else ()

    @property
    def requested_ms(self) -> int | None:
        """When the run was asked for; None: nothing of it is known here yet."""
        return self._state.requested_ms

    def reach(self, version: int) -> None:
        """
        Read what is new, in a run that was at `version` a moment ago; of a long one, from a
        snapshot. What is known already is confirmed by the log even if it reaches that far: the
        server may have been set back, and the run have gone on from there.
        """
        with self._lock:
            if self._state.version == 0 and version >= snapshots.EVERY_EVENTS:
                self._begin_at_snapshot()
            self._read()

    def catch_up(self) -> None:
        """Read whatever is new."""
        with self._lock:
            self._read()

    def take(self, appended: Appended) -> None:
        """Take the events of an append of ours; what others added before them is read first."""
        with self._lock:
            if self._state.version == appended.version - len(appended.events):
                self._evolve(appended.events)
            elif self._state.version < appended.version:
                self._read()

    def _read(self) -> None:
        # The last known event is read again: if it is not there any more, or another, the server
        # was set back behind our back, and nothing known here counts.
        known = self._state.version
        events = self._store.read(self.run, after=max(known - 1, 0))
        if known and (not events or events[0].id != self._state.last_event):
            self._state, self._kept_version = RunState(run=self.run), 0
            events = self._store.read(self.run)
        self._evolve(event for event in events if event.version > self._state.version)

    def _begin_at_snapshot(self) -> None:
        state = snapshots.load(self._store, self.run)
        if state is not None:
            self._state = state
            self._kept_version = state.version
            self._read()

    def _evolve(self, events: Iterable[Envelope]) -> None:
        for event in events:
            evolve(self._state, event)
        if self._state.version - self._kept_version >= snapshots.EVERY_EVENTS:
            self._kept_version = self._state.version
            if not self._state.ended:
                snapshots.keep(self._store, self._state)


class RunCache:
    """The folds of a process, the least recently used dropped first."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._folds: OrderedDict[str, Fold] = OrderedDict()
        self._values: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._values_bytes = 0

    def fold(self, run: str) -> Fold:
        """The fold of a run; a new one starts from nothing."""
        with self._lock:
            fold = self._folds.get(run)
            if fold is None:
                fold = self._folds[run] = Fold(run, self._store)
                if len(self._folds) > MAX_RUNS:
                    self._folds.popitem(last=False)
            self._folds.move_to_end(run)
            return fold

    def forget(self, run: str) -> None:
        """Drop the fold of a run that has ended."""
        with self._lock:
            self._folds.pop(run, None)

    def value(self, run: str, payload: Payload) -> Any:
        """The value of a payload; looked up by its digest where it is not inline."""
        if payload.inline:
            return payload.value
        with self._lock:
            if payload.digest in self._values:
                self._values.move_to_end(payload.digest)
                return self._values[payload.digest][1]
        value = msgspec.json.decode(self._store.payload(run, payload.digest))
        with self._lock:
            if payload.digest not in self._values:
                self._values[payload.digest] = (payload.size, value)
                self._values_bytes += payload.size
            while self._values_bytes > MAX_VALUES_BYTES:
                self._values_bytes -= self._values.popitem(last=False)[1][0]
        return value
