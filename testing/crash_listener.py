"""
Holds a process at a crash point until a test has made up its mind.

    with CrashListener(tmp_path / "ask") as listener:
        start_worker(MULLIGAN_CRASH_AT="tool.after:ask", MULLIGAN_CRASH_ASK=str(listener.path))
        listener.wait()           # the worker's tool has run; its thread goes no further
        listener.answer("raise")  # or "go"; or kill or stop the process, and answer nothing
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal


class CrashListener:
    """Hears of one arrival; `path` is the unix socket on which it listens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._held: socket.socket | None = None

    def wait(self, timeout_s: float = 30.0) -> str:
        """
        The crash point that a process has come to.

        Raises:
            TimeoutError: none has come to any within `timeout_s` seconds.
        """
        self._listener.settimeout(timeout_s)
        self._held, _ = self._listener.accept()
        self._held.settimeout(timeout_s)
        return self._held.makefile().readline().strip()

    def answer(self, word: Literal["go", "raise"]) -> None:
        """Let who is held there go on, or fail; nothing happens if it is dead."""
        if self._held is None:
            raise RuntimeError("nobody is held; call wait() first")
        with suppress(ConnectionError):
            self._held.sendall(f"{word}\n".encode())

    def __enter__(self) -> CrashListener:
        self._listener.bind(str(self.path))
        self._listener.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        if self._held is not None:
            self._held.close()
