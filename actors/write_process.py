"""
The process in which `write` tools and functions run, and which dies at its lease's end.

`python -m mulligan.actors.write_process FD` is the one that the others are forked from: it has
imported what they need and nothing of the users', and does nothing but fork. Each fork serves one
worker's calls, one after another, until the worker lets go of it or is gone.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
import threading
from importlib import import_module
from typing import Any, Literal

import msgspec

from mulligan.actors.alarm import Alarm, new_alarm
from mulligan.actors.code import load, server_tool
from mulligan.errors import MulliganError
from mulligan.schemas.code import import_code
from mulligan.schemas.run_context import RUN_CONTEXT, RunContext
from mulligan.schemas.tool_spec import ToolSpec
from mulligan.tools.call import call_function
from mulligan.tools.registry import Tool
from mulligan.tools.result import ToolResult

PULSE = struct.Struct("<qd")
"""A lease's new deadline: the number of the call that it is for, and the monotonic time."""

FORK = b"f"
FORK_FOR_SERVERS = b"m"
"""What asks for a fork: for calls of any kind, or for one of an MCP server's tool."""
READY = b"r"
"""The first byte that a fork sends: it is there, and has run nothing."""

_LENGTH = struct.Struct(">Q")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """
    What to run: a tool or a function by path, as a plan knows it, with its arguments as JSON
    values. `search_path` and `app` are the worker's, so that the same code is found here.

    `deadline_s` is the lease's end as known so far, `end_s` that of the call's own time (None: it
    has none); both by the monotonic clock, which all processes of a machine share.
    """

    number: int
    kind: Literal["tool", "function"]
    path: str
    digest: str
    folders: tuple[str, ...]
    search_path: tuple[str, ...]
    app: str | None
    arguments: Any
    key: str | None
    context: RunContext | None
    server_tool: ToolSpec | None
    deadline_s: float
    end_s: float | None


class Watch:
    """The alarm of the call that runs, put off by pulses; safe for use by threads."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._lock = threading.Lock()
        self._call: Call | None = None

    def begin(self, call: Call) -> None:
        """From now on the process dies at the call's end or its lease's, whichever is first."""
        with self._lock:
            self._call = call
            self._set(call.deadline_s)

    def put_off(self, number: int, deadline_s: float) -> None:
        """The lease of call `number` has been renewed; nothing if that call is over."""
        with self._lock:
            if self._call is not None and self._call.number == number:
                self._set(deadline_s)

    def end(self) -> None:
        """The call has returned."""
        with self._lock:
            self._call = None
            self._alarm.clear()

    def _set(self, deadline_s: float) -> None:
        assert self._call is not None
        end_s = self._call.end_s
        self._alarm.set(deadline_s if end_s is None else min(deadline_s, end_s))


# --- Frames on a stream ---------------------------------------------------------------------------


def send(stream: socket.socket, value: msgspec.Struct) -> None:
    """Write one value. Raises OSError where nobody reads."""
    body = msgspec.json.encode(value)
    stream.sendall(_LENGTH.pack(len(body)) + body)


def receive(stream: socket.socket) -> bytes | None:
    """Read one value's bytes; None: the other side has closed, or died."""
    head = _exactly(stream, _LENGTH.size)
    return _exactly(stream, _LENGTH.unpack(head)[0]) if head is not None else None


def _exactly(stream: socket.socket, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        try:
            part = stream.recv(min(count, 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


# --- The fork that serves -------------------------------------------------------------------------


def serve(calls: socket.socket, pulses: int) -> None:
    """Run what comes in on `calls` and answer each with its result, until nobody asks any more."""
    watch = Watch(new_alarm())
    threading.Thread(target=_listen, args=(pulses, watch), daemon=True).start()
    calls.sendall(READY)
    while (frame := receive(calls)) is not None:
        call = msgspec.json.decode(frame, type=Call)
        watch.begin(call)
        result = _run(call)
        watch.end()
        send(calls, result)


def _listen(pulses: int, watch: Watch) -> None:
    while data := os.read(pulses, PULSE.size):
        watch.put_off(*PULSE.unpack(data))
    os.kill(os.getpid(), signal.SIGKILL)  # the worker is gone: nobody would hear of what we do


def _run(call: Call) -> ToolResult:
    try:
        sys.path[:] = call.search_path
        if call.app is not None:
            import_code(call.app, (".",))
        if call.server_tool is not None:
            code: Any = server_tool(call.server_tool)
        else:
            code = load(call.path, call.digest, call.folders)
    except MulliganError as error:
        return not_run(str(error))
    if call.kind == "function":
        return call_function(code, _with_context(call.arguments))
    result: ToolResult = code.call(call.arguments, key=call.key, context=call.context)
    return result


def _with_context(arguments: dict[str, Any]) -> dict[str, Any]:
    """A function's arguments, its run's context among them as what it was before it was sent."""
    if RUN_CONTEXT not in arguments:
        return arguments
    return arguments | {RUN_CONTEXT: msgspec.convert(arguments[RUN_CONTEXT], RunContext)}


def not_run(why: str) -> ToolResult:
    """The result of a call that was not begun."""
    return ToolResult(is_error=True, code="not_run", message=f"it did not run: {why}"[:500])


# --- The process that forks -----------------------------------------------------------------------


def main() -> None:
    """Fork whenever two descriptors come in: a stream of calls, and the reading end of pulses."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is gone at once
    Tool(_example).parameters  # noqa: B018 - imports what pydantic puts off until its first model
    gc.freeze()  # so that collections in the forks leave the shared pages alone
    while True:
        word, handed, _, _ = socket.recv_fds(control, 1, 2)
        if not word:
            os._exit(0)
        if word == FORK_FOR_SERVERS:
            import_module("mulligan.tools.mcp.call")  # a second that each fork would need
        if os.fork() == 0:
            control.close()
            _become(*handed)
        for descriptor in handed:
            os.close(descriptor)


def _example(text: str) -> str:
    """A tool that nobody calls."""
    return text


def _become(calls: int, pulses: int) -> None:
    """The life of a fork; it never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (calls, pulses):
            os.set_inheritable(descriptor, False)
        serve(socket.socket(fileno=calls), pulses)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
