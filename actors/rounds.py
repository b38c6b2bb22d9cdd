"""
What a worker does every few seconds beside its work: it says that it lives, and audits the log.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import structlog

from mulligan.actors.roster import ANNOUNCE_S, Roster
from mulligan.errors import MulliganError
from mulligan.events.store import EventStore

AUDIT_S = 60.0
"""All workers together audit about so often; it repairs what only a fault could have left."""

FEED_KEPT = 10_000
"""References that stay for readers who do not say that they follow."""

IDLE_MS = 7 * 86_400_000
"""A projection that nobody has kept for a week does not hold up the feed; it is rebuilt then."""

LONGEST_JOIN_S = 2.0
"""An audit of very many runs must not hold up the end of its worker."""

SHOWN = 10
"""Repaired tasks that a line of the log names."""

_log = structlog.get_logger(__name__)


class Rounds:
    """The thread that makes them; `also` is what is looked after in each."""

    def __init__(
        self,
        store: EventStore,
        roster: Roster,
        *,
        also: Callable[[], None] = lambda: None,
        audit_s: float = AUDIT_S,
        seed: int | None = None,
    ) -> None:
        self._store = store
        self._roster = roster
        self._also = also
        self._audit_s = audit_s
        # Workers that were started together should not audit together.
        self._random = random.Random(seed)
        self._audit_at_s = time.monotonic() + audit_s * self._random.uniform(0.5, 1.5)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._make_for_ever, name="rounds", daemon=True)

    def start(self) -> None:
        """Begin; the first announcement is made at once."""
        self._thread.start()

    def end(self) -> None:
        """Make no more, and say that this worker ends."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(LONGEST_JOIN_S)
        try:
            self._roster.leave()
        except MulliganError as error:
            _log.info("not_signed_off", error=type(error).__name__)

    def make_once(self) -> None:
        """Announce; audit if it is time. The more workers there are, the rarer each one audits."""
        try:
            alive = len(self._roster.announce())
            self._also()
            if time.monotonic() >= self._audit_at_s:
                pause_s = self._audit_s * max(alive, 1) * self._random.uniform(0.5, 1.5)
                self._audit_at_s = time.monotonic() + pause_s
                self.audit()
        except MulliganError as error:
            _log.info("round_left_out", error=type(error).__name__)

    def audit(self) -> None:
        """Repair what should not be, and say what that was; drop what all have read of the feed."""
        repaired = self._store.audit()
        if repaired:
            _log.warning("audit_repaired", count=len(repaired), tasks=repaired[:SHOWN])
        for partition in range(self._store.partitions()):
            self._store.trim_feed(partition, keep=FEED_KEPT, idle_ms=IDLE_MS)

    def _make_for_ever(self) -> None:
        wait_s = 0.0
        while not self._ended.wait(wait_s):
            wait_s = min(ANNOUNCE_S, self._audit_s)
            try:
                self.make_once()
            except Exception:  # without this thread the worker would count as dead
                _log.exception("round_failed")
