"""
A run, followed from outside: its state, or its events.
"""

from __future__ import annotations

from time import monotonic

from mulligan.errors import RunSetBack, RunUnknown
from mulligan.events.envelope import Envelope
from mulligan.events.schedules import is_schedule
from mulligan.events.store import EventStore
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState

WAIT_MS = 1_000
"""How long one read waits for the next event; then it is asked again."""

PAUSED_SHARE, LONGEST_PAUSE_S = 0.1, 0.002
"""Of the time that was waited so far, and at most: so late who waits may see that a run is over."""


class Reading:
    """
    A run's events above version `after`, a page at a time; with `follow`, also those to come until
    it has ended. `more` says whether there may be another page.
    """

    def __init__(
        self, store: EventStore, run: str, after: int = 0, *, follow: bool = False
    ) -> None:
        self.more = True
        self._store = store
        self._run = run
        self._after = after
        self._follow = follow
        self._last: str | None = None

    def page(self, wait_ms: int = WAIT_MS) -> list[Envelope]:
        """
        What there is, or, followed, what has come within `wait_ms`.

        Raises:
            RunUnknown: there is no such run, or it is gone.
            RunSetBack: the log does not hold what was read before, or no event at `after`.
        """
        require(self._store, self._run)
        if not self._follow:
            self.more = False
            return self._store.read(self._run, self._after)
        if self._after and self._last is None:
            self._last = _id_at(self._store, self._run, self._after)
        events = self._store.follow(self._run, self._after, wait_ms)
        # Asked after the read: see `Watch.look`.
        if self._after and (self._last is None or not self._confirmed()):
            raise RunSetBack(self._run, self._after)
        if events:
            self._after, self._last = events[-1].version, events[-1].id
        self.more = not self._ended()
        return events

    def _confirmed(self) -> bool:
        return _id_at(self._store, self._run, self._after) == self._last

    def _ended(self) -> bool:
        row = self._store.row(self._run)
        return (
            row is not None and row.phase in ("closed", "archived") and row.version <= self._after
        )


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
        self._began_s = monotonic()
        require(store, run)

    @property
    def pause_s(self) -> float:
        """
        How long to let news pile up between two looks, for those who only wait for the end. Where
        steps take a quarter of a millisecond, who looks at each of them takes as much of the
        machine as who works them.
        """
        return min(PAUSED_SHARE * (monotonic() - self._began_s), LONGEST_PAUSE_S)

    @property
    def over(self) -> bool:
        """Whether the run has ended, or waits for somebody: for a signal, it goes on by itself."""
        waits = self.state.status == "paused" and self.state.reason != "awaiting_signal"
        return self.state.ended or waits

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
        last = _id_at(self._store, self.state.run, self.state.version)
        if last is None:
            require(self._store, self.state.run)
        return last == self.state.last_event


def require(store: EventStore, run: str) -> None:
    """Raises RunUnknown: there is no such run."""
    if is_schedule(run) or store.row(run) is None:
        raise RunUnknown(run)


def _id_at(store: EventStore, run: str, version: int) -> str | None:
    """The id of a run's event; None: its log does not go that far."""
    found = store.read(run, version - 1, limit=1)
    return found[0].id if found else None
