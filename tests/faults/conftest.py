"""
Worker processes that cost milliseconds, so that every instant can be tried: the same program that
the supervisor starts, forked from a process that has imported it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.testing.waiting import until
from mulligan.testing.worker import process_state

LEASE_MS, MARGIN_MS = 1_000, 200


class ForkedWorker:
    """One worker process."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self._log = log

    @property
    def alive(self) -> bool:
        return process_state(self.pid) not in (None, "Z")

    @property
    def stopped(self) -> bool:
        return process_state(self.pid) == "T"

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(one) for one in self.log().splitlines() if one.startswith("{")]
        return [one for one in lines if one["event"] == event]

    def wake(self) -> None:
        """Let it go on after it was stopped."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            until(lambda: not self.alive, 10.0)


@pytest.fixture(scope="session")
def zygote() -> Iterator[subprocess.Popen[str]]:
    """The process that worker processes are forked from."""
    made = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("zygote.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield made
    assert made.stdin is not None
    assert made.stdout is not None
    made.stdin.close()
    made.wait(30)
    made.stdout.close()


@pytest.fixture
def fork(
    zygote: subprocess.Popen[str], probe: Any, tmp_path: Path
) -> Iterator[Callable[..., ForkedWorker]]:
    """Starts a worker process, with a crash point if one is given; it ends with the test."""
    workers: list[ForkedWorker] = []

    def start(crash_at: str = "") -> ForkedWorker:
        log = tmp_path / f"worker{len(workers)}.log"
        environment = {
            "MULLIGAN_REDIS_URL": probe.url,
            "MULLIGAN_API_BASE": probe.model.url,
            "MULLIGAN_LEASE_MS": str(LEASE_MS),
            "MULLIGAN_LEASE_MARGIN_MS": str(MARGIN_MS),
            "MULLIGAN_CRASH_AT": crash_at,
            **probe.environment,
        }
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        zygote.stdin.write(json.dumps({"environment": environment, "log": str(log)}) + "\n")
        zygote.stdin.flush()
        workers.append(ForkedWorker(int(zygote.stdout.readline()), log))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()
