"""
A server's streams, of which the one it reads ends only once every request that was read has its
reply: a client may send its last request and close our input in one breath.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

__all__ = ["replying"]

LONGEST_S = 60.0
"""How long replies are waited for after the input's end: what our tools take at most."""

_Item = SessionMessage | Exception


@asynccontextmanager
async def replying(reading: Any, writing: Any) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a transport, as a server is to use them."""
    sink, source = anyio.create_memory_object_stream[_Item](0)
    taken, given = anyio.create_memory_object_stream[SessionMessage](0)
    requests = _Open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reading, sink, requests)
        tasks.start_soon(_write, given, writing, requests)
        yield source, taken
        tasks.cancel_scope.cancel()


class _Open:
    """Requests without a reply, by their ids."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._changed = anyio.Event()

    def read(self, message: Any) -> None:
        """A request is open from now on; one that the client gives up is open no more."""
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and (
            message.method == "notifications/cancelled"
        ):
            self._close((message.params or {}).get("requestId"))

    def written(self, message: Any) -> None:
        """A reply was handed on."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._close(message.id)

    async def none(self) -> None:
        """Returns once there are none."""
        while self._ids:
            self._changed = anyio.Event()
            await self._changed.wait()

    def _close(self, number: Any) -> None:
        self._ids.discard(number)
        self._changed.set()


async def _read(
    reading: ObjectReceiveStream[_Item], sink: ObjectSendStream[_Item], requests: _Open
) -> None:
    async with sink:
        async for item in reading:
            if isinstance(item, SessionMessage):
                requests.read(item.message)
            await sink.send(item)
        with anyio.move_on_after(LONGEST_S):
            await requests.none()


async def _write(
    given: ObjectReceiveStream[SessionMessage],
    writing: ObjectSendStream[SessionMessage],
    requests: _Open,
) -> None:
    async with writing:
        async for item in given:
            await writing.send(item)
            requests.written(item.message)
