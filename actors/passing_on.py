"""
Wake-ups of runs that are encrypted with a key that is not here: for workers that have it.

A message that this worker took reached nobody else. It is sent again, at once, so that who has the
key need not wait for the next sweep; and only a few times between two sweeps, in case nobody has.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import structlog

from mulligan.events.tasks import parse_task
from mulligan.events.vault import Vault

PERIOD_S = 2.0
"""As often as a sweep sends a message of its own."""
MOST = 5
"""Messages of a task that are passed on in that time."""
MAX_TASKS = 10_000

_log = structlog.get_logger(__name__)


class PassingOn:
    """What a process does not claim, for want of a key. Safe for use by threads."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._passed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """by task: when its period began, and how often it was passed on since"""

    def left(self, vault: Vault, task: str) -> bool:
        """Whether a task is left to others; its message is passed on to them then."""
        run, _, _ = parse_task(task)
        missing = vault.missing(run)
        if missing is None:
            return False
        count = self._count(task)
        if count == 1:
            _log.info("left_to_others", run=run, payload_key=missing)
        if count <= MOST:
            self._send(task)
        return True

    def _count(self, task: str) -> int:
        now_s = time.monotonic()
        with self._lock:
            began_s, count = self._passed.pop(task, (now_s, 0))
            if now_s - began_s > PERIOD_S:
                began_s, count = now_s, 0
            self._passed[task] = began_s, count + 1
            if len(self._passed) > MAX_TASKS:
                self._passed.popitem(last=False)
            return count + 1
