"""
Playing a reply on a connection: pauses, closes, resets and silence included.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import assert_never

from starlette.requests import Request
from starlette.types import Send

from mulligan.testing.replies import Reply


class Connections:
    """The open connections by the client's address, as ASGI does not hand them over."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], asyncio.Transport] = {}

    def opened(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        # Or Nagle's algorithm waits for the client's delayed acknowledgement: 40 ms a response.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open[transport.get_extra_info("peername")[:2]] = transport

    def closed(self, transport: asyncio.Transport) -> None:
        """The connection is gone."""
        self._open.pop(transport.get_extra_info("peername")[:2], None)

    def reset(self, request: Request) -> None:
        """End the connection of a request with a reset (RST) in place of an orderly close."""
        transport = self._of(request)
        if transport is not None:
            endpoint = transport.get_extra_info("socket")
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()

    def close(self, request: Request) -> None:
        """End the connection of a request after what was written to it."""
        transport = self._of(request)
        if transport is not None:
            transport.close()

    def _of(self, request: Request) -> asyncio.Transport | None:
        client = request.client
        return None if client is None else self._open.get((client.host, client.port))


async def play(reply: Reply, request: Request, send: Send, connections: Connections) -> str:
    """
    Send a reply, until its end or until the client hangs up.

    Returns `answered` (the reply was played as it stands) or `disconnected`.
    """
    hung_up = asyncio.ensure_future(_hung_up(request))
    played = asyncio.ensure_future(_play(reply, request, send, connections))
    try:
        await asyncio.wait({hung_up, played}, return_when=asyncio.FIRST_COMPLETED)
        if not played.done():
            return "disconnected"
        await played
        return "answered"
    finally:
        hung_up.cancel()
        played.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _play(reply: Reply, request: Request, send: Send, connections: Connections) -> None:
    if not reply.silent:
        await _send_head(reply, send)
    for piece in reply.pieces:
        # Also without a pause: a long reply must not keep the loop from others.
        await asyncio.sleep(reply.pause_ms / 1000)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    match reply.end:
        case "complete":
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        case "close":
            connections.close(request)
        case "reset":
            connections.reset(request)
        case "hang":
            await asyncio.Event().wait()
        case _:
            assert_never(reply.end)


async def _send_head(reply: Reply, send: Send) -> None:
    headers = {"content-type": reply.content_type, "cache-control": "no-store", **reply.headers}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
