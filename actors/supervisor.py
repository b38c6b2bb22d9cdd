"""
The parent of worker processes: starts them, replaces those that die, and ends with the last.

Processes are started new, not forked: each has threads, connections and a model client of its own.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time

import msgspec
import structlog

from mulligan.actors.end_signals import end_signals
from mulligan.actors.process import HOPELESS, Orders
from mulligan.settings import Settings

FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.2, 10.0

STEADY_S = 30.0
"""A process that lived so long is replaced without waiting."""

KILL_AFTER_S = 10.0
"""Beyond its drain and grace; a process that takes longer hangs."""

_log = structlog.get_logger(__name__)


class _Ended(msgspec.Struct, frozen=True):
    """A process has ended."""

    seat: _Seat


class _Signalled(msgspec.Struct, frozen=True):
    """This process was told to end."""


class _Seat:
    """The place of one process, which one after another may take."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.generation = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0
        self.start_at_s: float | None = 0.0
        self.backoff_s = 0.0


class Supervisor:
    """
    Runs `processes` workers by the same orders until SIGTERM or SIGINT; a second signal kills.

    Crash points are armed in the first process of each seat only: its replacement goes on.
    """

    def __init__(self, settings: Settings, orders: Orders, *, processes: int) -> None:
        self._settings = settings
        self._command = [
            sys.executable,
            "-m",
            "mulligan.actors.process",
            msgspec.json.encode(orders).decode(),
        ]
        self._patience_s = orders.drain_s + settings.lease_grace_ms / 1_000 + KILL_AFTER_S
        self._seats = [_Seat(number) for number in range(processes)]
        self._news: queue.SimpleQueue[_Ended | _Signalled] = queue.SimpleQueue()
        self._draining = False
        self._kill_at_s: float | None = None
        self._exit_code = 0

    def run(self) -> int:
        """Supervise until all are gone; the exit code, 0 after a drain. For the main thread."""
        with end_signals(lambda: self._news.put(_Signalled())):
            try:
                return self._supervise()
            finally:
                self._kill_all()

    def _supervise(self) -> int:
        while True:
            self._start_due()
            if self._draining and not self._alive():
                return self._exit_code
            try:
                self._hear(self._news.get(timeout=self._sleep_s()))
            except queue.Empty:
                if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s:
                    _log.error("workers_killed", pids=[p.pid for p in self._alive()])
                    self._kill_all()

    def _hear(self, news: _Ended | _Signalled) -> None:
        if isinstance(news, _Ended):
            self._bury(news.seat)
        elif self._draining:
            self._kill_all()
        else:
            self._drain()

    def _start_due(self) -> None:
        if self._draining:
            return
        for seat in self._seats:
            if seat.start_at_s is not None and time.monotonic() >= seat.start_at_s:
                self._start(seat)

    def _start(self, seat: _Seat) -> None:
        seat.start_at_s = None
        seat.started_s = time.monotonic()
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            env=self._settings.child_environment(armed=seat.generation == 0),
            # Ctrl-C in a terminal reaches this process, which passes it on once.
            start_new_session=True,
        )
        seat.process = process
        seat.generation += 1
        threading.Thread(target=self._await, args=(seat, process), daemon=True).start()

    def _await(self, seat: _Seat, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._news.put(_Ended(seat))

    def _bury(self, seat: _Seat) -> None:
        assert seat.process is not None
        process, seat.process = seat.process, None
        if process.stdin is not None:
            process.stdin.close()
        code = process.returncode
        if self._draining:
            return
        reasons = {ends_with: reason for reason, ends_with in HOPELESS.items()}
        if code in reasons and seat.generation == 1:
            self._exit_code = reasons[code]
            self._drain()
            return
        self._replace(seat, process.pid, code)

    def _replace(self, seat: _Seat, pid: int, code: int) -> None:
        steady = time.monotonic() - seat.started_s >= STEADY_S
        seat.backoff_s = 0.0 if steady else seat.backoff_s
        wait_s = seat.backoff_s
        seat.backoff_s = min(max(2 * seat.backoff_s, FIRST_BACKOFF_S), LAST_BACKOFF_S)
        seat.start_at_s = time.monotonic() + wait_s
        _log.warning("worker_died", pid=pid, cause=_cause(code), restart_in_s=wait_s)

    def _drain(self) -> None:
        self._draining = True
        self._kill_at_s = time.monotonic() + self._patience_s
        for process in self._alive():
            process.send_signal(signal.SIGTERM)

    def _kill_all(self) -> None:
        for process in self._alive():
            process.kill()

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [seat.process for seat in self._seats if seat.process is not None]

    def _sleep_s(self) -> float | None:
        """Until the next start or kill is due; None: only news can change anything."""
        times = [seat.start_at_s for seat in self._seats if not self._draining]
        due = [time_s for time_s in (*times, self._kill_at_s) if time_s is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
