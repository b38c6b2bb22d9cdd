"""
A server that is a process of ours, spoken to over its standard streams, within bounds.

What the SDK can't read it passes over, so that a call whose answer is broken would wait until its
time is over, and it joins what it reads without end. Here an answer that is too large or can't be
read ends the session, and whoever waits in it is told at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from mulligan.tools.mcp.unusable import MOST_ANSWER_BYTES, MOST_BYTES, MOST_MESSAGES, UnusableAnswer

__all__ = ["piped"]

LEAVE_S = 2.0
"""How long a server whose input has ended may take to end, and as long again once it is told to."""

_Sink = MemoryObjectSendStream[SessionMessage | Exception]
_Source = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def piped(
    command: Sequence[str], environment: Mapping[str, str], stderr: Any
) -> AsyncIterator[tuple[Any, Any]]:
    """
    Start a server, in a process group of its own that ends with this context; the streams are what
    a `mcp.Client` speaks through. Raises OSError where it can't be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
        env=dict(environment),
        limit=MOST_ANSWER_BYTES,
        start_new_session=True,
    )
    heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, told = anyio.create_memory_object_stream[SessionMessage](0)
    pipe = _Pipe(process)
    tasks = [asyncio.create_task(pipe.hear(heard)), asyncio.create_task(pipe.tell(told, heard))]
    try:
        yield reading, writing
    finally:
        for task in tasks:
            task.cancel()
        ending = asyncio.ensure_future(_ended(process, tasks))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending  # it has bounds of its own
            raise
        finally:
            for stream in (heard, reading, writing, told):
                stream.close()


class _Pipe:
    """Both ways to a process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._said_bytes = self._said_lines = 0

    async def hear(self, heard: _Sink) -> None:
        """Pass on its messages; the stream ends where it does, or where it is of no use."""
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                self._said_bytes += len(line)
                self._said_lines += 1
                message = _message(line)
                if message is not None:
                    await heard.send(message)
                if self._said_bytes > MOST_BYTES or self._said_lines > MOST_MESSAGES:
                    raise UnusableAnswer
        except (OSError, ValueError, UnusableAnswer, anyio.BrokenResourceError):
            pass  # readline raises ValueError for a line beyond the limit
        finally:
            heard.close()

    async def tell(self, told: _Source, heard: _Sink) -> None:
        """Send it messages; where it does not take them, the session ends."""
        assert self._process.stdin is not None
        try:
            async for message in told:
                self._said_bytes = self._said_lines = 0
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(text.encode() + b"\n")
                await self._process.stdin.drain()
        except (OSError, anyio.BrokenResourceError):
            heard.close()


def _message(line: bytes) -> SessionMessage | None:
    """
    What a line says; None for what is no message, such as a server's banner.

    Raises UnusableAnswer for a message that can't be read: halves of surrogate pairs, say, or a
    depth that nobody reads. Whose answer it is can't be told either.
    """
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        if line.lstrip().startswith(b"{") and b'"jsonrpc"' in line:
            raise UnusableAnswer from None
        return None


async def _ended(process: Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """End a server: asked, told, killed. It is read meanwhile, or one that writes hears nothing."""
    await asyncio.gather(*tasks, return_exceptions=True)
    assert process.stdin is not None
    process.stdin.close()
    drain = asyncio.create_task(_drained(process))
    for number in (signal.SIGTERM, signal.SIGKILL, None):
        if await _gone(process) or number is None:
            break
        _kill(process, number)
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:  # a descendant may hold the pipes open
        transport.close()


async def _drained(process: Process) -> None:
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):
        pass


async def _gone(process: Process) -> bool:
    """Whether it has ended, within a while."""
    end_s = asyncio.get_running_loop().time() + LEAVE_S
    while process.returncode is None and asyncio.get_running_loop().time() < end_s:
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _kill(process: Process, number: int) -> None:
    """Signal its group, while its number is still its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
