"""
One request over HTTP and what came of it, with deadlines of our own.

`Exchange` works below the HTTP client, on its transport: there are no redirects, no cookies, no
proxies from the environment and no retries that it could add. It sends what it is given, once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec

from mulligan.providers import classify
from mulligan.providers.port import Answer, Failure, Hear
from mulligan.providers.repetition import DEFAULT_REPETITION, Repetition
from mulligan.providers.wire import WireReader


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """
    How long silence may last, in milliseconds; any byte ends it (REC-18). None waits for ever.

    `first_byte_ms` is from the request to the first byte of the response's head, and from there to
    the first of its body: where it is not streamed, the whole of the model's work.
    """

    connect_ms: int | None = 10_000
    first_byte_ms: int | None = 600_000
    idle_ms: int | None = 120_000


class Exchange:
    """
    Requests through one pool of connections; a response that falls into a loop, by `repetition`, is
    left there. Belongs to the loop on which it is first used;
    `aclose`, on that loop, closes the pool.
    """

    def __init__(self, deadlines: Deadlines, repetition: Repetition = DEFAULT_REPETITION) -> None:
        self._deadlines = deadlines
        self._repetition = repetition
        self._transport: httpx2.AsyncHTTPTransport | None = None

    async def send(self, request: httpx2.Request, hear: Hear | None = None) -> Answer | Failure:
        """Send `request` and read its response to the end; `hear` is told what streams."""
        connect_ms = self._deadlines.connect_ms
        connect_seconds = None if connect_ms is None else connect_ms / 1000
        request.extensions = {**request.extensions, "timeout": {"connect": connect_seconds}}
        try:
            async with self._response(request) as response:
                return await self._read(response, hear)
        except _Silent as silence:
            return classify.failure(silence.kind, transient=True)
        except httpx2.TransportError as error:
            return classify.failure(_kind_of(error), transient=True)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.aclose()

    @asynccontextmanager
    async def _response(self, request: httpx2.Request) -> AsyncIterator[httpx2.Response]:
        async with _silence(self._deadlines.first_byte_ms, "first_byte_timeout"):
            response = await self._pool().handle_async_request(request)
        try:
            yield response
        finally:
            await response.aclose()

    async def _read(self, response: httpx2.Response, hear: Hear | None) -> Answer | Failure:
        headers = {name.lower(): value for name, value in response.headers.items()}
        reader = WireReader(headers.get("content-type", ""), self._repetition, hear)
        try:
            await self._feed(response, reader)
        except (_Silent, httpx2.TransportError) as error:
            # Once the finish reason is there the response is whole, however its stream ends; and a
            # connection that the peer merely closed too early is an end without a terminal event.
            if not (reader.terminal or isinstance(error, httpx2.RemoteProtocolError)):
                raise
        except httpx2.DecodingError:
            return classify.failure("garbled", transient=True, status=response.status_code)
        return classify.judge(response.status_code, headers, reader.end(), time.time())

    async def _feed(self, response: httpx2.Response, reader: WireReader) -> None:
        body = response.aiter_bytes()
        limit_ms, kind = self._deadlines.first_byte_ms, "first_byte_timeout"
        while not reader.complete:
            async with _silence(limit_ms, kind):
                data = await anext(body, None)
            if data is None:
                return
            reader.feed(data)
            limit_ms, kind = self._deadlines.idle_ms, "idle_timeout"

    def _pool(self) -> httpx2.AsyncHTTPTransport:
        if self._transport is None:
            # As many connections as requests: what limits them is shared by all workers (REC-34).
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
            self._transport = httpx2.AsyncHTTPTransport(trust_env=False, retries=0, limits=limits)
        return self._transport


class _Silent(Exception):
    """A deadline passed without a byte."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


@asynccontextmanager
async def _silence(limit_ms: int | None, kind: str) -> AsyncIterator[None]:
    """Bound one step; a `TimeoutError` of the step's own is not taken for ours."""
    limit = asyncio.timeout(None if limit_ms is None else limit_ms / 1000)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _Silent(kind) from None


def _kind_of(error: httpx2.TransportError) -> str:
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return "connect_timeout"
        case httpx2.ConnectError() | httpx2.ProxyError() | httpx2.UnsupportedProtocol():
            return "connect"
        case httpx2.RemoteProtocolError():
            return "disconnected"
        case httpx2.LocalProtocolError():
            return "protocol"
        case _:
            return "reset"
