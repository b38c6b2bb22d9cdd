"""
Server-sent events (WHATWG HTML, 9.2): how records are written, and the response that sends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b":\n\n"
HEARTBEAT_S = 15.0
"""Proxies hang up on what is silent; and a client that is gone is found out by it."""
RETRY_MS = 2_000
"""After so long a client connects again."""
STALL_S = 30.0
"""A client that takes nothing for so long is cut off; it may go on where it was."""


def record(data: Any, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - the field's name
    """A record: JSON in one line, what it is where it is no event of the log, and its id."""
    head = (f"event: {event}\n" if event else "") + (f"id: {id}\n" if id else "")
    return b"%bdata: %b\n\n" % (head.encode(), msgspec.json.encode(data))


class EventStream(Response):
    """
    A stream of records. A client that is slow holds up nobody but itself; one that takes nothing is
    cut off.
    """

    def __init__(
        self,
        records: AsyncGenerator[bytes, None],
        lasting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._records = records
        self._lasting = lasting
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(None, headers=headers, media_type=MEDIA_TYPE)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_gone(receive))
        sending = asyncio.create_task(self._send(scope, send))
        with self._lasting():
            try:
                await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (gone, sending):
                    task.cancel()
                await asyncio.gather(gone, sending, return_exceptions=True)
                await self._records.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, scope: Scope, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await _sent(scope, send, f"retry: {RETRY_MS}\n\n".encode())
        async for records in self._records:
            await _sent(scope, send, records)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(scope: Scope, send: Send, body: bytes) -> None:
    try:
        async with asyncio.timeout(STALL_S):
            await send({"type": "http.response.body", "body": body, "more_body": True})
    except TimeoutError:
        # What waits to be sent would keep the connection open for ever.
        cut_off = scope.get("state", {}).get("cut_off")
        if cut_off is not None:
            cut_off()
            await asyncio.sleep(0)  # so that the server knows, before this response ends
        raise asyncio.CancelledError from None
