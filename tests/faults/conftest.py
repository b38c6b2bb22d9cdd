"""
Worker processes on the probing workflow, so that every instant can be tried; and a scene in which
one of them is held there while something happens to it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.events.redis_scripts import Name, digest_of, runs_when_full, source
from mulligan.testing.crash_listener import CrashListener
from mulligan.testing.fault_cells import Result, Spot
from mulligan.testing.fault_matrix import LEASE_MS
from mulligan.testing.tcp_proxy import TcpProxy
from mulligan.testing.waiting import until

MARGIN_MS = 200


@pytest.fixture
def fork(forked: Callable[..., Any], probe: Any) -> Callable[..., Any]:
    """
    Starts a worker process, with a crash point if one is given, and further variables of its
    environment; it ends with the test.
    """

    def start(
        crash_at: str = "", *, lease_ms: int = LEASE_MS, threads: int = 8, **variables: str
    ) -> Any:
        return forked(
            {
                "MULLIGAN_REDIS_URL": probe.url,
                "MULLIGAN_API_BASE": probe.model.url,
                "MULLIGAN_LEASE_MS": str(lease_ms),
                "MULLIGAN_LEASE_MARGIN_MS": str(MARGIN_MS),
                "MULLIGAN_CRASH_AT": crash_at,
                **probe.environment,
                **variables,
            },
            threads,
        )

    return start


COMMANDS: dict[str, Name] = {
    "message.read": "claim",
    "leases.renewed": "renew",
    "sweep.after": "sweep",
    "rows.before": "commit_rows",
    "rows.after": "commit_rows",
}
"""The script that is called after a point, where it is not `append`."""


class Scene:
    """A process that is held at a spot, what happens to it there, and who comes after it."""

    def __init__(
        self, probe: Any, fork: Callable[..., Any], server: Any, folder: Path, proxy: TcpProxy
    ) -> None:
        self.probe = probe
        self.fork = fork
        self.server = server
        self._folder = folder
        self.listener = CrashListener(folder / "ask")
        self._proxy = proxy

    def armed(self, spot: Spot) -> dict[str, str]:
        """The environment of a process that is to be held there, and whose network may fail."""
        return {
            "MULLIGAN_REDIS_URL": self._proxy.url,
            "MULLIGAN_CRASH_AT": f"{spot.armed}:ask",
            "MULLIGAN_CRASH_ASK": str(self.listener.path),
        }

    def told(self) -> str:
        """What workers have logged, for the message of a failed assertion."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("worker*.log")))

    def kill(self, worker: Any, run: str) -> int:
        """
        Kill it and start another; how many milliseconds passed, by the server's clock, until that
        one had gone on with the run.
        """
        with self.server.client() as client:
            seconds, micros = client.time()
        os.kill(worker.pid, signal.SIGKILL)
        until(lambda: not worker.alive)
        left = self.probe.client.status(run).version
        self.fork()
        self.probe.until(run, lambda state: state.version > left)
        return int(self.probe.events(run)[left].time_ms - seconds * 1_000 - micros // 1_000)

    def lose_reply(self, spot: Spot) -> None:
        """Let it go on: its next command is carried out, and the connection breaks unanswered."""
        lost = self._proxy.lose_reply(command_after(spot))
        self.listener.answer("go")
        assert lost.wait(30), "no reply was lost"

    def end(self, worker: Any) -> None:
        """Let it drain: whatever it would still have done, it has."""
        os.kill(worker.pid, signal.SIGTERM)
        until(lambda: not worker.alive, 30.0, worker.log)


def command_after(spot: Spot) -> Callable[[bytes], bool]:
    """Tells the first command that a spot is about."""
    if spot.point == "hint.before":
        return lambda command: b"RPUSH" in command
    known = [digest_of(text).encode() for text in texts(COMMANDS.get(spot.point, "append"))]
    return lambda command: any(digest in command for digest in known)


def texts(name: Name) -> tuple[str, str]:
    """A script as it is sent while there is memory, and when there is none."""
    return source(name), runs_when_full(source(name))


@pytest.fixture
def scene(probe: Any, fork: Any, server: Any, tmp_path: Path) -> Iterator[Scene]:
    with server.client() as client:  # so that no reply that is lost says "no such script"
        for name in ("append", *COMMANDS.values()):
            for text in texts(name):
                client.script_load(text)
    with TcpProxy(server.url) as proxy:
        scene = Scene(probe, fork, server, tmp_path, proxy)
        with scene.listener:
            yield scene


@pytest.fixture
def note() -> Callable[[Result], None]:
    """Adds a result to the file that `MULLIGAN_FAULTS` names, if it does (see `make faults`)."""

    def note(result: Result) -> None:
        if path := os.environ.get("MULLIGAN_FAULTS"):
            with open(path, "ab") as file:  # one write: several processes add to it
                file.write(msgspec.json.encode(result) + b"\n")

    return note
