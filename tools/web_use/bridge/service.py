"""
The bridge's socket: lines in, lines out, and everything else put together.

The socket is open and the windows are registered before Chromium starts: who comes first waits for
Chromium alone, never for old views.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from mulligan.errors import EnvironmentUnfit
from mulligan.logs import stack_of
from mulligan.tools.web_use.bridge.bridge import Asked, Bridge
from mulligan.tools.web_use.bridge.chromium import Chromium
from mulligan.tools.web_use.bridge.holdings import Configuration
from mulligan.tools.web_use.bridge.proxy import Resolve, resolve
from mulligan.tools.web_use.bridge.receipts import Records
from mulligan.tools.web_use.bridge.redaction import Redaction
from mulligan.tools.web_use.bridge.window import Windows
from mulligan.tools.web_use.client import MAX_LINE, Answer, Failed, Question
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import effect_of, parse

__all__ = ["BridgeService"]

_log = structlog.get_logger(__name__)


class _Connection:
    """One client; `number` counts them, `gone` is set when it has let go."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.gone = False


class _Running:
    """A command under way, and who waits for it."""

    def __init__(self, task: asyncio.Task[Answer]) -> None:
        self.task = task
        self.waiting: list[_Connection] = []


class BridgeService:
    """A bridge that listens on a socket of the file system."""

    def __init__(
        self,
        path: Path,
        executable: Path,
        windows: Sequence[str],
        configuration: Configuration,
        *,
        headed: bool = False,
        resolve: Resolve = resolve,
    ) -> None:
        self._path = path
        self._redaction = Redaction(configuration.secrets.values())
        self._records = Records(configuration.folder / "records.sqlite", self._redaction)
        self._chromium = Chromium(executable, lambda: self._windows.lost(), headed=headed)
        self._windows = Windows(self._chromium, self._records, resolve)
        for window in windows:
            self._windows.register(window, kept=True)
        self._bridge = Bridge(self._windows, self._records, configuration, self._redaction)
        self._running: dict[str, _Running] = {}
        self._settled: dict[str, int] = {}
        """ids of acts that had not begun when they were settled, and the newest connection then"""
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """
        Listen, then bring back what the windows showed.

        Raises EnvironmentUnfit: another bridge listens there, or nothing can.
        """
        await self._refuse_second()
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, self._path, limit=MAX_LINE, start_serving=False
            )
            self._path.chmod(0o600)
            await self._server.start_serving()
        except OSError as error:
            raise EnvironmentUnfit(f"{self._path}: no socket can be made there ({error})") from None
        self._windows.restore()

    async def close(self) -> None:
        """Stop listening, let go of Chromium."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for running in self._running.values():
            running.task.cancel()
        self._windows.keep_views()
        await self._windows.close()
        await self._chromium.close()
        self._records.close()

    async def _refuse_second(self) -> None:
        try:
            _, writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            self._path.unlink(missing_ok=True)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return
        writer.close()
        raise EnvironmentUnfit(f"{self._path}: another `mulligan browser` listens there")

    # --- Connections -----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = _Connection(self._connections)
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        reading = asyncio.ensure_future(_read(reader, connection, lines))
        try:
            while (line := await lines.get()) is not None:
                answer = await self._answered(line, connection)
                writer.write(self._encoded(answer) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            connection.gone = True
            reading.cancel()
            with contextlib.suppress(OSError):
                writer.close()

    def _encoded(self, answer: Answer) -> bytes:
        """Secrets are in nothing that leaves."""
        return msgspec.json.encode(self._redaction.value(msgspec.to_builtins(answer)))

    async def _answered(self, line: bytes, connection: _Connection) -> Answer:
        try:
            question = msgspec.json.decode(line, type=Question)
        except msgspec.ValidationError:
            return _failed(WebUseFailed("invalid_arguments", "the line is no question"))
        except msgspec.DecodeError:
            return _failed(WebUseFailed("invalid_arguments", "the line is no JSON"))
        try:
            match question.op:
                case "command":
                    return await self._command(question, connection)
                case "settle":
                    return await self._settle(question)
                case "bind":
                    self._bridge.bind(question.caller.run or "", question.caller.window or "")
                    return Answer()
                case "leave":
                    self._bridge.leave(question.caller)
                    return Answer()
        except WebUseFailed as failed:
            return _failed(failed)

    async def _command(self, question: Question, connection: _Connection) -> Answer:
        """Do it, or wait with whoever asked for the same before."""
        action = question.caller.action
        if self._settled.get(action, 0) >= connection.number:
            raise WebUseFailed("cancelled", "it was given up before it began; nothing was done")
        running = self._running.get(action)
        if running is None:
            running = self._begin(question, action)
        running.waiting.append(connection)
        return await asyncio.shield(running.task)

    def _begin(self, question: Question, action: str) -> _Running:
        command = parse(question.command)
        loop = asyncio.get_running_loop()
        asked = Asked(
            command=command,
            caller=question.caller,
            deadline_s=loop.time() + question.timeout_ms / 1_000,
            wanted=lambda: any(not one.gone for one in self._running[action].waiting),
        )
        running = self._running[action] = _Running(loop.create_task(self._done(asked)))
        running.task.add_done_callback(lambda _: self._running.pop(action, None))
        return running

    async def _done(self, asked: Asked) -> Answer:
        try:
            # An act that has begun is not given up: it has bounds of its own.
            end_s = None if effect_of(asked.command) == "write" else asked.deadline_s
            async with asyncio.timeout_at(end_s):
                result: Any = msgspec.to_builtins(await self._bridge.do(asked))
            return Answer(result=result)
        except TimeoutError:
            return _failed(WebUseFailed("timeout", "it took longer than it was given"))
        except WebUseFailed as failed:
            return _failed(failed)
        except Exception as error:
            _log.error("command_failed", stack=stack_of(error))
            return _failed(
                WebUseFailed("backend_action_failed", f"the bridge failed ({type(error).__name__})")
            )

    async def _settle(self, question: Question) -> Answer:
        action = question.caller.action
        self._settled[action] = self._connections
        running = self._running.get(action)
        if running is not None:
            await asyncio.wait({running.task})
        receipt = await self._bridge.settle(question.caller)
        return Answer(result=None if receipt is None else msgspec.to_builtins(receipt))


async def _read(
    reader: asyncio.StreamReader, connection: _Connection, lines: asyncio.Queue[bytes | None]
) -> None:
    """Read on while a command is under way, so that a client that has let go is noticed."""
    with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
        while (line := await reader.readline()).endswith(b"\n"):
            lines.put_nowait(line)
    connection.gone = True
    lines.put_nowait(None)


def _failed(failed: WebUseFailed) -> Answer:
    return Answer(failed=Failed(code=failed.failure, message=str(failed), receipt=failed.receipt))
