"""
The way out of one window: a proxy on a port of its own through which all its requests go (WEB-7).

A route in the browser sees only the first hop of a redirect. This sees every hop, resolves each
host once, checks the address it came to, and connects to that very address, so that a name that
leads elsewhere the next time (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.addresses import host_and_port
from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["FAILED", "MARK", "EgressProxy", "Resolve", "resolve"]

MARK = "x-mulligan-refused"
"""The header of refusals, which are the proxy's own."""
FAILED = "x-mulligan-failed"
"""The header of its answers where the host gave none."""
MAX_HEAD = 64 << 10
CONNECT_S = 10.0
HOP_BY_HOP = frozenset(
    [b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"te", b"upgrade"]
)

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises OSError where it has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class _Refused(Exception):
    """A request that goes nowhere, and why."""


class EgressProxy:
    """
    HTTP, and CONNECT for TLS. `rules` says at any time by which rules requests may leave: it is
    enough that one allows both the host and its address. `refused` holds the hosts that were not
    let through last.
    """

    def __init__(self, rules: Callable[[], Iterable[WebRules]], resolve: Resolve = resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused: deque[str] = deque(maxlen=200)

    @property
    def closed(self) -> bool:
        """Whether it does not listen."""
        return self._server is None

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)

    async def close(self) -> None:
        """End every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except _Refused as refused:
            _answer(writer, "403 Forbidden", f"{MARK}: {refused}")
        except (OSError, TimeoutError):
            _answer(writer, "502 Bad Gateway", f"{FAILED}: 1")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, or one tunnel: connections are not used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, headers = head.partition(b"\r\n")
        method, target, _ = line.decode("latin-1").split(" ", 2)
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            there, out = await self._connect(host.strip("[]"), int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both_ways(reader, writer, there, out)
            return
        try:
            name, number = host_and_port(target)
        except WebUseFailed as failed:
            raise _Refused(str(failed)) from None
        there, out = await self._connect(name, number)
        out.write(_request_line(method, target) + _closing(headers))
        sending = asyncio.create_task(_pipe(reader, out))
        try:
            answer = await there.readuntil(b"\r\n\r\n")
            status, _, rest = answer.partition(b"\r\n")
            writer.write(status + b"\r\n" + _closing(rest))
            await _pipe(there, writer)
        finally:
            sending.cancel()
            out.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        rules = [one for one in self._rules() if one.host_allowed(host, port)]
        if not rules:
            raise self._refusal(host, "this host is not allowed")
        for address in await self._resolve(host, port):
            if any(one.address_allowed(address) for one in rules):
                return await asyncio.wait_for(
                    asyncio.open_connection(address, port, limit=MAX_HEAD), CONNECT_S
                )
        raise self._refusal(host, "this host leads to a network that is not allowed")

    def _refusal(self, host: str, why: str) -> _Refused:
        self.refused.append(host.lower())
        return _Refused(why)


def _request_line(method: str, target: str) -> bytes:
    _, _, rest = target.partition("://")
    slash = rest.find("/")
    query = rest.find("?")
    ends = [place for place in (slash, query) if place >= 0]
    path = rest[min(ends) :] if ends else "/"
    path = path if path.startswith("/") else f"/{path}"
    return f"{method} {path.partition('#')[0]} HTTP/1.1\r\n".encode("latin-1")


def _closing(headers: bytes) -> bytes:
    """Headers with which the connection ends after this one message."""
    kept = [
        line
        for line in headers.split(b"\r\n")
        if line and line.partition(b":")[0].strip().lower() not in HOP_BY_HOP
    ]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    out: asyncio.StreamWriter,
) -> None:
    sending = asyncio.create_task(_pipe(reader, out))
    try:
        await _pipe(there, writer)
    finally:
        sending.cancel()
        out.close()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


def _answer(writer: asyncio.StreamWriter, status: str, header: str) -> None:
    # Without a body Chromium shows a page of its own, and tells nothing of the headers.
    size = f"Content-Length: {len(status)}"
    lines = (f"HTTP/1.1 {status}", header, size, "Connection: close", "", status)
    with contextlib.suppress(OSError, RuntimeError):
        writer.write("\r\n".join(lines).encode("latin-1"))
