"""
The processes in which a worker runs `write` tools and functions.

A worker that slept through its lease must not wake up and write. So what must not be repeated runs
in a process of its own, under an alarm of the kernel that only renewals of the lease put off; it
ends with its call's time, its lease, or its worker, whichever is first. A process that the tool
itself starts is not reached by the alarm.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
import structlog

from mulligan.actors.write_process import (
    FORK,
    FORK_FOR_SERVERS,
    PULSE,
    READY,
    Call,
    not_run,
    receive,
    send,
)
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.tool_spec import ToolSpec
from mulligan.tools.result import ToolResult

if TYPE_CHECKING:
    from mulligan.actors.leases import Lease, LeaseKeeper

MOST_IDLE = 8
"""Processes kept for the next calls; each costs a few megabytes of its own."""

_log = structlog.get_logger(__name__)
_numbers = count(1)


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """
    A call that must not be repeated: of a tool or function, as its plan knows it. `server_tool` is
    all of the plan of one that an MCP server supplies.
    """

    kind: Literal["tool", "function"]
    path: str
    digest: str
    folders: tuple[str, ...]
    arguments: Any
    key: str | None = None
    context: RunContext | None = None
    timeout_ms: int | None = None
    server_tool: ToolSpec | None = None


class Writes(Protocol):
    """Where a runtime has its writes done."""

    def run(self, lease: Lease, write: Write) -> ToolResult | None:
        """Run it once. None: it may or may not have taken effect."""
        ...

    def close(self) -> None:
        """Let go of whatever was kept for further calls."""
        ...


class WriteProcesses:
    """
    `Writes` in processes that die at their lease's end. The first call starts the process that the
    others are forked from; processes are used again while they live.

    Args:
        app: the worker's `module:attribute`, imported in each process too.
    """

    def __init__(self, leases: LeaseKeeper, app: str | None = None) -> None:
        self._leases = leases
        self._app = app
        self._lock = threading.Lock()
        self._idle: list[_Server] = []
        self._origin: _Origin | None = None

    def run(self, lease: Lease, write: Write) -> ToolResult | None:
        """See `Writes.run`. The lease is renewed first: what is not ours any more is not begun."""
        try:
            server = self._take(write)
        except OSError as error:
            _log.exception("no_write_process")
            return not_run(f"no process could be started for it ({type(error).__name__})")
        if not self._leases.renew(lease):
            self._give(server)
            return not_run("the lease on its task was lost before it began")
        result = server.run(lease, write, self._app)
        if result is None:
            server.close()
        else:
            self._give(server)
        return result

    def close(self) -> None:
        """See `Writes.close`."""
        with self._lock:
            idle, self._idle = self._idle, []
            origin, self._origin = self._origin, None
        for server in idle:
            server.close()
        if origin is not None:
            origin.close()

    def _take(self, write: Write) -> _Server:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._origin is not None and not self._origin.alive:
                self._origin.close()
                self._origin = None
            if self._origin is None:
                self._origin = _Origin()
            return self._origin.fork(FORK if write.server_tool is None else FORK_FOR_SERVERS)

    def _give(self, server: _Server) -> None:
        with self._lock:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(server)
                return
        server.close()


class _Origin:
    """The process that the others are forked from."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mulligan.actors.write_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # ours may carry a run's result; what tools print is for people
                start_new_session=True,  # Ctrl-C in a terminal is the worker's to hear
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, word: bytes) -> _Server:
        """
        A process that waits for calls.

        Raises:
            OSError: there is none; nothing has run.
        """
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        server = _Server(ours, writing)
        try:
            socket.send_fds(self._control, [word], [theirs.fileno(), reading])
        except OSError:
            server.close()
            raise
        finally:
            theirs.close()
            os.close(reading)
        server.await_ready()
        return server

    def close(self) -> None:
        self._control.close()
        self._process.wait()


class _Server:
    """A process that runs one call after another."""

    def __init__(self, calls: socket.socket, pulses: int) -> None:
        self._calls = calls
        self._pulses = pulses
        os.set_blocking(pulses, False)

    def await_ready(self) -> None:
        if self._calls.recv(1) != READY:
            self.close()
            raise ChildProcessError("the process ended before it was ready")

    def run(self, lease: Lease, write: Write, app: str | None) -> ToolResult | None:
        """What the call comes to; None: the process died over it."""
        number = next(_numbers)

        def put_off(deadline_s: float) -> None:
            # A full pipe: it is stopped, and does not need to hear of this one.
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(self._pulses, PULSE.pack(number, deadline_s))

        with lease.renewals(put_off):
            try:
                send(self._calls, _call(number, lease, write, app))
            except OSError:
                return None
            frame = receive(self._calls)
        return msgspec.json.decode(frame, type=ToolResult) if frame is not None else None

    def close(self) -> None:
        """It ends, if it has not."""
        self._calls.close()
        os.close(self._pulses)


def _call(number: int, lease: Lease, write: Write, app: str | None) -> Call:
    timeout_ms = write.timeout_ms
    return Call(
        number=number,
        kind=write.kind,
        path=write.path,
        digest=write.digest,
        folders=write.folders,
        search_path=tuple(sys.path),
        app=app,
        arguments=write.arguments,
        key=write.key,
        context=write.context,
        server_tool=write.server_tool,
        deadline_s=lease.deadline_s,
        end_s=None if timeout_ms is None else time.monotonic() + timeout_ms / 1_000,
    )
