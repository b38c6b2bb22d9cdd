"""
Finds what is due and wakes whoever works it: timers, lost messages, and tasks whose worker died.

One runs in every worker, without a leader. It executes nothing: a sweep marks what is due as ready
and answers it once per resend time, whoever sweeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from dramatiq.errors import BrokerError

from mulligan.errors import MulliganError
from mulligan.events.crash_points import reach
from mulligan.events.store import EventStore

SWEEP_LIMIT = 500
RESEND_MS = 2_000

WINDOW = 1_000
"""Wake-ups that may wait in the queue: 100,000 due runs must not become millions of messages."""

QUIET_LIMIT = 10
"""What a sweep after one that found nothing may find without a look at the queue."""

LONGEST_SLEEP_S = 0.25
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.1, 2.0

_log = structlog.get_logger(__name__)


class Reconciler:
    """
    The thread that sweeps.

    Args:
        send: sends the wake-up for a task; raises nothing for one that can't be sent.
        queue_length: how many wake-ups wait now.
        seen: told a partition, the time of its server, and when (monotonic seconds) it was asked,
            by every sweep.
    """

    def __init__(
        self,
        store: EventStore,
        send: Callable[[str], None],
        queue_length: Callable[[], int],
        *,
        seen: Callable[[int, int, float], None] = lambda partition, server_ms, sent_s: None,
        window: int = WINDOW,
    ) -> None:
        self._store = store
        self._send = send
        self._queue_length = queue_length
        self._seen = seen
        self._window = window
        self._backoff_s = 0.0
        self._quiet = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sweep_for_ever, name="reconciler", daemon=True)

    def start(self) -> None:
        """Begin to sweep."""
        self._thread.start()

    def end(self) -> None:
        """Sweep no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def sweep_once(self) -> float:
        """One sweep, as far as the queue has room; the seconds to sleep after it."""
        try:
            return self._sweep()
        except (MulliganError, BrokerError) as error:
            return self._back_off(error)

    def _sweep(self) -> float:
        room = min(QUIET_LIMIT, self._window) if self._quiet else self._room()
        if room <= 0:
            return LONGEST_SLEEP_S
        limit = min(room, SWEEP_LIMIT)
        sent_s = time.monotonic()
        swept = self._store.sweep(limit=limit, resend_ms=RESEND_MS)
        for partition, server_ms in enumerate(swept.now_ms):
            self._seen(partition, server_ms, sent_s)
        if swept.tasks:
            reach("sweep.after")
        if self._backoff_s:
            _log.warning("sweeping_again")
            self._backoff_s = 0.0
        self._quiet = not swept.tasks
        for task in swept.tasks:
            self._send(task)
        if len(swept.tasks) >= limit:
            return 0.0
        if swept.next_in_ms is None:
            return LONGEST_SLEEP_S
        return min(max(swept.next_in_ms, 1) / 1_000, LONGEST_SLEEP_S)

    def _room(self) -> int:
        return self._window - self._queue_length()

    def _back_off(self, error: Exception) -> float:
        if not self._backoff_s:
            _log.warning("not_sweeping", error=type(error).__name__)
        self._backoff_s = min(max(2 * self._backoff_s, FIRST_BACKOFF_S), LAST_BACKOFF_S)
        return self._backoff_s

    def _sweep_for_ever(self) -> None:
        sleep_s = 0.0
        while not self._ended.wait(sleep_s):
            try:
                sleep_s = self.sweep_once()
            except Exception as error:  # without this thread nothing lost would be found again
                _log.exception("sweep_failed")
                sleep_s = self._back_off(error)
