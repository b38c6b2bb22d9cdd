"""
A proxy in front of a Redis or Valkey server that makes the network fail: it delays, cuts, swallows,
and loses nothing but a reply, so that a write is applied and its writer never told.

    with ValkeyServer() as server, TcpProxy(server.url) as proxy:
        lost = proxy.lose_reply(lambda command: b"EVALSHA" in command)
        store = RedisEventStore(proxy.url)
        ...                       # the first such command is applied; its connection breaks
        assert lost.happened
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from mulligan.testing.resp import Frames

_R = TypeVar("_R")
_CHUNK_BYTES = 65_536


@dataclass(slots=True)
class LostReply:
    """An order to lose one reply; `happened` once it is lost."""

    of: Callable[[bytes], bool]
    arrival: int
    _seen: int = 0
    _lost: threading.Event = field(default_factory=threading.Event)

    @property
    def happened(self) -> bool:
        """Whether the reply is lost."""
        return self._lost.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is lost; False after `timeout_s` seconds."""
        return self._lost.wait(timeout_s)

    def takes(self, command: bytes) -> bool:
        """Whether this command, which is about to be sent, is the one."""
        if self.happened or not self.of(command):
            return False
        self._seen += 1
        return self._seen == self.arrival

    def done(self) -> None:
        """The reply is lost."""
        self._lost.set()


class TcpProxy:
    """
    Listens on a port of the loopback address, and passes on to one server.

    Orders may come from any thread and hold from their return on.

    Args:
        upstream: the server's address, `redis://host:port/db` or `unix://path?db=n`.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy")
        self._server: asyncio.Server | None = None
        self._port = 0
        self._links: set[_Link] = set()
        self._orders: list[LostReply] = []
        self.delay_s = 0.0
        """How much later each piece arrives, each way."""
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False

    @property
    def url(self) -> str:
        """The proxy's address, for whatever takes the server's."""
        return f"redis://127.0.0.1:{self._port}/{_database(self._upstream)}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._links)

    # --- Orders ----------------------------------------------------------------------------------

    def lose_reply(self, of: Callable[[bytes], bool], arrival: int = 1) -> LostReply:
        """
        Let the `arrival`-th command from now of which `of` is true be carried out, and break its
        connection instead of passing on what the server says to it. `of` is shown each command as
        it was sent.
        """
        order = LostReply(of, arrival)
        self._do(self._add(order))
        return order

    def cut(self) -> int:
        """Break every connection now; new ones are taken. Says how many there were."""
        return self._do(self._cut())

    def refuse(self) -> None:
        """Break every connection and take none, until `accept`."""
        self._refusing = True
        self.cut()

    def swallow(self) -> None:
        """Keep connections open and pass nothing on, until `accept`: a network that hangs."""
        self._do(self._hold())

    def accept(self) -> None:
        """End `refuse` and `swallow`; what was held goes on."""
        self._refusing = False
        self._do(self._release())

    async def _add(self, order: LostReply) -> None:
        self._orders.append(order)

    async def _cut(self) -> int:
        links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    async def _hold(self) -> None:
        self._open.clear()

    async def _release(self) -> None:
        self._open.set()

    # --- Life ------------------------------------------------------------------------------------

    def __enter__(self) -> TcpProxy:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, _R]) -> _R:
        future: Future[_R] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(10.0)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()
        while self._links:
            await asyncio.sleep(0)
        await self._server.wait_closed()

    # --- Traffic ---------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            server = await self._connect()
        except OSError:  # the server is down: so is who stands in front of it
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), server)
        self._links.add(link)
        try:
            await link.pass_on()
        finally:
            self._links.discard(link)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = urlsplit(self._upstream)
        if at.scheme == "unix":
            return await asyncio.open_unix_connection(at.path)
        return await asyncio.open_connection(at.hostname, at.port)

    async def passage(self) -> None:
        """What every piece waits for on its way: the delay, and the end of `swallow`."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._open.wait()

    def order_for(self, command: bytes) -> LostReply | None:
        """The order to lose this command's reply, if there is one."""
        return next((order for order in self._orders if order.takes(command)), None)


class _Link:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: TcpProxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._awaited: deque[LostReply | None] = deque()
        """For each command whose reply is still to come: whether that is to be lost."""

    def cut(self) -> None:
        """Break both sides at once."""
        self._to_client.transport.abort()
        self._to_server.transport.abort()

    async def pass_on(self) -> None:
        """Until one side ends."""
        ways = [asyncio.ensure_future(way()) for way in (self._commands, self._replies)]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self.cut()
        for way in ways:
            way.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await way

    async def _commands(self) -> None:
        """From the client to the server, command by command."""
        frames = Frames()
        while piece := await self._from_client.read(_CHUNK_BYTES):
            await self._proxy.passage()
            for command in frames.feed(piece):
                self._awaited.append(self._proxy.order_for(command))
                self._to_server.write(command)
            await self._to_server.drain()

    async def _replies(self) -> None:
        """From the server to the client, up to a reply that is to be lost."""
        frames = Frames()
        while piece := await self._from_server.read(_CHUNK_BYTES):
            await self._proxy.passage()
            for reply in frames.feed(piece):
                pushed = reply[:1] == b">"
                order = None if pushed or not self._awaited else self._awaited.popleft()
                if order is not None:
                    order.done()
                    return
                self._to_client.write(reply)
            await self._to_client.drain()


def _database(url: str) -> str:
    at = urlsplit(url)
    in_query = parse_qs(at.query).get("db", ["0"])[0]
    return in_query if at.scheme == "unix" else at.path.strip("/") or in_query
