"""
The way to the bridge: newline JSON over a unix socket that only its user can open.

    with BridgeClient(settings.browser_socket_path) as browser:
        pages = browser.call({"command": "list_pages"}, caller)

It needs no Playwright. A line out is a `Question`, a line back is an `Answer`; one connection
carries one command at a time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from mulligan.tools.result import ToolResult
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.codes import FailureCode, WebUseFailed
from mulligan.tools.web_use.commands import Command, effect_of, flat, parse
from mulligan.tools.web_use.results import Receipt

__all__ = ["Answer", "BridgeClient", "Failed", "Question", "use"]

DEFAULT_TIMEOUT_MS = 45_000
"""How long a command may take in the bridge, below the time that tools have by default."""
LEAVE_MS = 1_000
GRACE_S = 5.0
"""How much longer its answer is waited for."""
MAX_LINE = 4 << 20

_CLOSED = "the browser bridge is not there; start `mulligan browser`, then retry with list_pages"


_GONE = "the browser bridge went away while it was at this"


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A line to the bridge. `command` does one; `settle` asks what became of the act of this caller's
    id, and makes sure that it is not begun any more if it was not; `bind` opens the pages of the
    caller's window to its run; `leave` closes the window that was made for the caller.
    """

    op: Literal["command", "settle", "bind", "leave"]
    caller: Caller
    command: dict[str, Any] = {}
    timeout_ms: int = DEFAULT_TIMEOUT_MS


class Failed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a command failed."""

    code: FailureCode
    message: str
    receipt: Receipt | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line from the bridge: a result's JSON, or why there is none."""

    result: dict[str, Any] | None = None
    failed: Failed | None = None


class BridgeClient:
    """A connection to the bridge, made when it is needed. One thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None

    def __enter__(self) -> BridgeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; an act whose input was not sent yet is given up by that."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(
        self,
        command: Command | Mapping[str, Any],
        caller: Caller,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> dict[str, Any]:
        """
        Do a command, given as its shape or as flat arguments; the result is that of
        `mulligan.tools.web_use.results` as JSON values.

        Raises WebUseFailed, `desktop_unavailable` where no bridge is there.
        """
        shape = parse(command) if isinstance(command, Mapping) else command
        question = Question(op="command", caller=caller, command=flat(shape), timeout_ms=timeout_ms)
        result = self._ask(question)
        assert result is not None
        return result

    def settle(self, caller: Caller) -> Receipt | None:
        """
        What became of the caller's act, with its evidence looked at once more where that is open;
        None: it was never begun, and will not be.

        Raises WebUseFailed where the bridge can't be asked, or knows less than that.
        """
        answer = self._ask(Question(op="settle", caller=caller))
        return msgspec.convert(answer, Receipt) if answer is not None else None

    def bind(self, run: str, window: str) -> None:
        """
        Let a run use the pages of a window besides those of its own.

        Raises WebUseFailed where that window is not registered, or no bridge is there.
        """
        caller = Caller(owner=f"{run}:", action="", run=run, window=window)
        self._ask(Question(op="bind", caller=caller))

    def leave(self, caller: Caller) -> None:
        """
        Close the window that was made for a caller, with its pages; where there is none, nothing
        is done. Raises WebUseFailed where no bridge is there, or it does not answer.
        """
        self._ask(Question(op="leave", caller=caller, timeout_ms=LEAVE_MS))

    def _ask(self, question: Question) -> dict[str, Any] | None:
        try:
            line = self._round_trip(question)
        except _NotSent:
            self.close()
            raise WebUseFailed("desktop_unavailable", _CLOSED) from None
        except TimeoutError:
            self.close()
            raise _lost(question, "timeout", "the bridge did not answer in time") from None
        except OSError:
            self.close()
            raise _lost(question, "backend_action_failed", _GONE) from None
        answer = msgspec.json.decode(line, type=Answer)
        if answer.failed is not None:
            failed = answer.failed
            raise WebUseFailed(failed.code, failed.message, receipt=failed.receipt)
        return answer.result

    def _round_trip(self, question: Question) -> bytes:
        try:
            connection = self._connected()
            connection.settimeout(question.timeout_ms / 1_000 + GRACE_S)
            connection.sendall(msgspec.json.encode(question) + b"\n")
        except OSError as error:  # the bridge reads no part of a line
            raise _NotSent from error
        parts: list[bytes] = []
        while not (parts and parts[-1].endswith(b"\n")):
            part = connection.recv(1 << 16)
            if not part:
                raise ConnectionError("the bridge has closed the connection")
            parts.append(part)
        return b"".join(parts)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            if self._path.stat().st_uid != os.geteuid():
                raise PermissionError(f"{self._path} is another user's")
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                raise
            self._socket = connection
        return self._socket


class _NotSent(Exception):
    """The bridge has not got the whole of a line."""


def _lost(question: Question, code: FailureCode, message: str) -> WebUseFailed:
    """The failure of a command whose answer never came; of an act, nobody knows what it did."""
    action = question.command.get("action")
    if question.op != "command" or action is None or effect_of(parse(question.command)) == "read":
        return WebUseFailed(code, f"{message}; retry with list_pages")
    receipt = Receipt(action=question.caller.action, act=action, outcome="unknown")
    return WebUseFailed(code, f"{message}; the act may have been done", receipt=receipt)


def use(path: Path, arguments: Mapping[str, Any], caller: Caller) -> ToolResult:
    """
    Do one command over a connection of its own. Never raises for what comes of it: a failure is a
    result with `is_error` and its code (WEB-8).
    """
    try:
        with BridgeClient(path) as client:
            return ToolResult(value=client.call(arguments, caller))
    except WebUseFailed as failed:
        return ToolResult(
            is_error=True, code=failed.code, message=str(failed), unknown=failed.unknown
        )
