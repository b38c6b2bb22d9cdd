"""
`mulligan worker` as a process of its own, for tests that kill, stop and replace workers.

    with WorkerProcess(server.url, api_base=model.url, crash_at="tool.after:kill") as worker:
        run = client.enqueue("flow.yaml")
        client.wait(run)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from mulligan.testing.waiting import until

JOURNALED = "mulligan.testing.journaled_worker"

END_TIMEOUT_S = 30.0
"""Beyond the drain of what a test leaves running."""


class WorkerProcess:
    """
    A supervisor and its worker processes, ended with the context and with whoever started them.

    Args:
        redis_url: the server to work.
        api_base: where models without an address of their own are asked.
        crash_at: crash points, armed in the first process of each seat (see
            `mulligan.events.crash_points`).
        folder: the working directory; default: that of this process.
        app: as on the command line.
        journal: a file to which it notes what it claims and what is acknowledged to it
            (`mulligan.testing.journal`).
        environment: further variables, such as provider keys.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        api_base: str | None = None,
        processes: int = 1,
        threads: int = 8,
        lease_ms: int = 1_000,
        lease_margin_ms: int = 200,
        crash_at: str = "",
        drain_s: float = 5.0,
        app: str | None = None,
        journal: Path | None = None,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._folder = folder
        program = ["mulligan.cli", "worker"] if journal is None else [JOURNALED]
        self._command = [sys.executable, "-m", *program, *([app] if app else [])]
        self._command += ["--processes", str(processes), "--threads", str(threads)]
        self._command += ["--drain", str(drain_s)]
        self._environment = {
            **{name: v for name, v in os.environ.items() if not name.startswith("MULLIGAN_")},
            "MULLIGAN_REDIS_URL": redis_url,
            "MULLIGAN_LEASE_MS": str(lease_ms),
            "MULLIGAN_LEASE_MARGIN_MS": str(lease_margin_ms),
            **({"MULLIGAN_API_BASE": api_base} if api_base else {}),
            **({"MULLIGAN_CRASH_AT": crash_at} if crash_at else {}),
            **({"TEST_JOURNAL": str(journal)} if journal is not None else {}),
            **(environment or {}),
        }
        self._log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed with the worker
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> list[int]:
        """The worker processes that have begun to work, those that have ended included."""
        return [one["pid"] for one in self.logged("worker_started")]

    @property
    def alive(self) -> list[int]:
        """The worker processes that live, stopped ones included."""
        return [pid for pid in self.pids if process_state(pid) not in (None, "Z")]

    @property
    def stopped(self) -> list[int]:
        """The worker processes that are stopped (SIGSTOP)."""
        return [pid for pid in self.pids if process_state(pid) == "T"]

    @property
    def supervised(self) -> bool:
        """Whether the supervisor lives; it ends by itself where nothing can be worked at all."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What supervisor and workers have logged so far."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log entries of one kind."""
        lines = [json.loads(one) for one in self.log().splitlines() if one.startswith("{")]
        return [one for one in lines if one["event"] == event]

    def start(self) -> None:
        """Start it; it works some time later (`until_working`)."""
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=self._folder,
            stderr=self._log,
            start_new_session=True,
        )

    def until_working(self, processes: int = 1, timeout_s: float = 30.0) -> None:
        """Return once so many of its processes have begun to work."""
        until(lambda: len(self.pids) >= processes, timeout_s, self.log)

    def terminate(self) -> int:
        """Let it drain (SIGTERM), and return its exit code."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        return process.wait(END_TIMEOUT_S)

    def kill(self) -> None:
        """Kill the supervisor; its workers drain."""
        self._running().kill()
        self._running().wait(END_TIMEOUT_S)

    def close(self) -> None:
        """End whatever is left of it, without a drain."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)
            for pid in self.alive:
                os.kill(pid, signal.SIGKILL)
            until(lambda: not self.alive, END_TIMEOUT_S, self.log)
        self._log.close()

    def __enter__(self) -> WorkerProcess:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the worker is not running; call start() first")
        return self._process


def process_state(pid: int) -> str | None:
    """A process's state as Linux tells it (R, S, T stopped, Z ended, …); None: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
