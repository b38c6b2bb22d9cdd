"""
The leases that a process holds, renewed together by one thread.

A lease's deadline is this process's own: monotonic time before the claim or renewal was sent, plus
the lease, minus a margin. Whatever the server's clock and the network do, it is over here before
it is over there, and beyond it nothing new is started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

import structlog

from mulligan.errors import MulliganError
from mulligan.events.crash_points import reach
from mulligan.events.store import EventStore, Held, Renewed, RunPhase

LONGEST_INTERVAL_S = 0.5
"""Renewals also carry cancellation, which a person waits for."""

_log = structlog.get_logger(__name__)


class Lease:
    """
    One task, held. Leaving its context lets go of it here, not on the server: that is what an
    append that releases, or `give_back`, has done.
    """

    def __init__(
        self, keeper: LeaseKeeper, held: Held, inbox: int, phase: RunPhase, deadline_s: float
    ) -> None:
        self.held = held
        self.inbox = inbox
        """wake-ups of the task, as of the last renewal"""
        self.phase: RunPhase = phase
        """the run's, as of the last renewal"""
        self.deadline_s = deadline_s
        self._keeper = keeper
        self._lost = False
        self._lock = threading.Lock()
        self._stopping = False
        self._on_stop: list[Callable[[], None]] = []
        self._told: list[Callable[[float], None]] = []

    @property
    def lost(self) -> bool:
        """Whether the task is, or may be, another's by now."""
        return self._lost or self._keeper.now_s() >= self.deadline_s

    def may_start(self) -> bool:
        """Whether there is time to begin something in the world."""
        return not self.lost

    def on_stop(self, callback: Callable[[], None]) -> None:
        """
        Have `callback` called once, from another thread, when what runs under the lease should
        end: it is lost, the run is being cancelled, or the process is out of time. At once, and in
        this thread, if that was before.
        """
        with self._lock:
            if not self._stopping:
                self._on_stop.append(callback)
                return
        callback()

    @contextmanager
    def renewals(self, told: Callable[[float], None]) -> Iterator[None]:
        """
        Within this context `told` hears each new deadline (monotonic seconds), from another thread,
        which it must not hold up.
        """
        with self._lock:
            self._told.append(told)
        try:
            yield
        finally:
            with self._lock:
                self._told.remove(told)

    def stop(self) -> None:
        """Tell whatever runs under the lease to end."""
        with self._lock:
            self._stopping = True
            callbacks, self._on_stop = self._on_stop, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # one that fails must not keep the others from being told
                _log.exception("could_not_stop", task=self.held.task)

    def lose(self) -> None:
        """It is another's."""
        self._lost = True
        self.stop()

    def renewed(self, answer: Renewed, deadline_s: float) -> None:
        """The server has renewed it."""
        self.inbox = answer.inbox
        self.deadline_s = deadline_s
        with self._lock:
            for told in self._told:
                told(deadline_s)
        if answer.phase != self.phase:
            self.phase = answer.phase
            self.stop()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.let_go(self)


class LeaseKeeper:
    """
    All leases of a process. `start` it to have them renewed every third of a lease, and twice a
    second at least, in one call however many there are.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        lease_ms: int,
        margin_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now_s = clock
        self.margin_ms = margin_ms
        self._store = store
        self._lease_ms = lease_ms
        self._term_s = (lease_ms - margin_ms) / 1_000
        self._interval_s = min(lease_ms / 3_000, LONGEST_INTERVAL_S)
        self._changed = threading.Condition()
        self._leases: dict[str, Lease] = {}
        self._ended = False
        self._silent = False
        self._thread = threading.Thread(target=self._renew_for_ever, name="leases", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def end(self) -> None:
        """Renew no more. What is held still is lost when its time is over."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def hold(self, held: Held, inbox: int, phase: RunPhase, sent_s: float) -> Lease:
        """
        Keep a lease that was just claimed; `sent_s` is when the claim was sent, by `now_s`. An
        older one on the same task is lost: the server has given the task anew.
        """
        lease = Lease(self, held, inbox, phase, sent_s + self._term_s)
        with self._changed:
            older = self._leases.get(held.task)
            self._leases[held.task] = lease
            self._changed.notify_all()
        if older is not None:
            older.lose()
        return lease

    def let_go(self, lease: Lease) -> None:
        """Renew it no longer."""
        with self._changed:
            if self._leases.get(lease.held.task) is lease:
                del self._leases[lease.held.task]

    def held(self) -> list[Lease]:
        """The leases held now."""
        with self._changed:
            return list(self._leases.values())

    def renew(self, lease: Lease) -> bool:
        """Renew one now, as before something that must not run under a lost lease."""
        self._renew([lease])
        return lease.may_start()

    def renew_all(self) -> None:
        """One round of what the thread does."""
        leases = self.held()
        if leases:
            self._renew(leases)

    def stop_work(self) -> None:
        """Tell everything that runs under a lease to end: this process is out of time."""
        for lease in self.held():
            lease.stop()

    def give_back_all(self) -> None:
        """Hand back whatever is held, for others to take at once."""
        for lease in self.held():
            self.let_go(lease)
            try:
                self._store.give_back(lease.held)
            except MulliganError as error:
                _log.warning("not_given_back", task=lease.held.task, error=type(error).__name__)
            lease.lose()

    def _renew(self, leases: list[Lease]) -> None:
        sent_s = self.now_s()
        try:
            answers = self._store.renew([lease.held for lease in leases], self._lease_ms)
        except MulliganError as error:
            self._unanswered(leases, error)
            return
        reach("leases.renewed")
        if self._silent:
            _log.warning("leases_renewed_again")
            self._silent = False
        for lease in leases:
            answer = answers.get(lease.held.task)
            if answer is None:
                self.let_go(lease)
                lease.lose()
            else:
                lease.renewed(answer, sent_s + self._term_s)

    def _unanswered(self, leases: list[Lease], error: MulliganError) -> None:
        """Those whose time is over are lost here, whatever the server would have said."""
        if not self._silent:
            _log.warning("leases_not_renewed", held=len(leases), error=type(error).__name__)
            self._silent = True
        for lease in leases:
            if lease.lost:
                self.let_go(lease)
                lease.lose()

    def _renew_for_ever(self) -> None:
        while self._wait_for_next_round():
            try:
                self.renew_all()
            except Exception:  # without this thread every lease of the process would be lost
                _log.exception("lease_round_failed")

    def _wait_for_next_round(self) -> bool:
        """Sleep until there is something to renew and it is time; False: the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._leases)
            self._changed.wait_for(lambda: self._ended, self._interval_s)
            return not self._ended
