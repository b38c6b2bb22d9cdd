"""
A run's state, followed from outside.
"""

from __future__ import annotations

from mulligan.errors import RunUnknown
from mulligan.events.envelope import Envelope
from mulligan.events.store import EventStore
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState

WAIT_MS = 1_000
"""How long one read waits for the next event; then it is asked again."""


class Watch:
    """
    The state of a run, taken forward at every `look`. Where the log does not confirm what was seen
    (its server was set back, and the run may have gone on from there) it begins anew.

    Raises:
        RunUnknown: there is no such run.
    """

    def __init__(self, store: EventStore, run: str) -> None:
        self.state = RunState(run=run)
        self._store = store
        self._require()

    @property
    def over(self) -> bool:
        """Whether the run has ended, or waits for somebody."""
        return self.state.ended or self.state.status == "paused"

    def look(self, wait_ms: int | None = None) -> list[Envelope]:
        """
        What is new, within `wait_ms` (None: a second); empty: nothing yet, or all begins anew.

        Raises:
            RunUnknown: the run is gone from its server.
        """
        wait_ms = WAIT_MS if wait_ms is None else wait_ms
        events = self._store.follow(self.state.run, self.state.version, wait_ms)
        # Asked after the read: what was read before a server was set back is not mixed either.
        if not self._confirmed():
            self.state = RunState(run=self.state.run)
            return []
        for event in events:
            evolve(self.state, event)
        return events

    def _confirmed(self) -> bool:
        """Whether the log still holds the last event that was seen."""
        if not self.state.version:
            return True
        last = self._store.read(self.state.run, self.state.version - 1, limit=1)
        if not last:
            self._require()
        return bool(last) and last[0].id == self.state.last_event

    def _require(self) -> None:
        if self._store.row(self.state.run) is None:
            raise RunUnknown(self.state.run)
