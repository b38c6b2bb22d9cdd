"""
The priorities of runs, for whoever wakes a task without having folded its run: the sweep, and who
calls those that wait for a slot.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import structlog

from mulligan.errors import MulliganError
from mulligan.events.facts import Priority, RunRequested
from mulligan.events.store import EventStore

MAX_RUNS = 10_000

_log = structlog.get_logger(__name__)


class RunPriorities:
    """
    A run's priority by its id. It stands in the run's first event and never changes, so it is read
    once; the least recently used are dropped first. Safe for use by threads.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Priority] = OrderedDict()

    def of(self, run: str) -> Priority:
        """The priority of a run; 0 for one that can't be read now."""
        with self._lock:
            if run in self._known:
                self._known.move_to_end(run)
                return self._known[run]
        try:
            priority = self._read(run)
        except MulliganError as error:
            _log.info("priority_unknown", run=run, reason=type(error).__name__)
            return 0
        with self._lock:
            self._known[run] = priority
            if len(self._known) > MAX_RUNS:
                self._known.popitem(last=False)
        return priority

    def _read(self, run: str) -> Priority:
        first = self._store.read(run, limit=1)
        fact = first[0].data if first else None
        return fact.priority if isinstance(fact, RunRequested) else 0
