"""
Sessions with MCP servers, in an event loop of their own thread, each kept while it is used.

One a process. A session lives as a task, since what the SDK opens in a task has to be closed there;
calls of any thread share it.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from mcp import Client

from mulligan.schemas.mcp_tools import McpServer, OfferedTool
from mulligan.tools.mcp.connection import connected

__all__ = ["Session", "Sessions", "sessions"]

IDLE_S = 60.0
"""A session that nobody has used for so long is closed, and its process with it."""
CLOSE_S = 10.0
"""How long the end of all sessions may take, servers that must be killed among them."""
MOST_TOOLS = 10_000
"""A server that lists more than so many has lost count; its pages are read no further."""

CONNECT_S = 60.0
"""A server that is fetched from a package index by its first start takes long."""

T = TypeVar("T")


class Session:
    """A session with one server, to be used within the loop; `served`: something came of a use."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._uses = 0
        self.served = False
        self._wanted = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._live())

    async def use(self, what: Callable[[Client], Awaitable[T]]) -> T:
        """What `what` comes to. Raises what it raises, or why there is no session."""
        self._uses += 1
        self._wanted.set()
        try:
            client = await asyncio.shield(self._ready)
            done = await what(client)
            self.served = True
            return done
        finally:
            self._uses -= 1

    @property
    def silent(self) -> bool:
        """Whether it was there, and nobody awaits an answer in it: it may be closed."""
        return self._ready.done() and not self._uses

    async def _live(self) -> None:
        try:
            # One that hangs as it starts would else be waited for by every call there ever is.
            async with asyncio.timeout(CONNECT_S) as starting, connected(self._server) as client:
                starting.reschedule(None)
                self._ready.set_result(client)
                await self._idle()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(_told(error))
                self._ready.exception()  # whoever waits is told; if nobody does, nobody need be
            if not isinstance(error, Exception):
                raise

    async def _idle(self) -> None:
        """Returns once nobody uses it, and nobody has for a while."""
        while True:
            self._wanted.clear()
            try:
                await asyncio.wait_for(self._wanted.wait(), IDLE_S)
            except TimeoutError:
                if not self._uses:
                    return


class Sessions:
    """The sessions of this process, by server; safe for use by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._sessions: dict[bytes, Session] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` comes to in the loop, waited for by this thread."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def of(self, server: McpServer) -> Session:
        """The session with a server, a new one where there is none; within the loop."""
        key = msgspec.json.encode(server, order="sorted")
        session = self._sessions.get(key)
        if session is None or session.task.done():
            session = self._sessions[key] = Session(server)
        return session

    def drop(self, session: Session) -> None:
        """Use it no more: it broke."""
        self._sessions = {k: one for k, one in self._sessions.items() if one is not session}
        self._leaving.add(session.task)
        session.task.add_done_callback(self._leaving.discard)
        session.task.cancel()

    def close(self) -> None:
        """End every session, and the processes of their servers."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._closed(), loop).result(CLOSE_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_S)
            loop.close()

    async def _closed(self) -> None:
        tasks = [*(session.task for session in self._sessions.values()), *self._leaving]
        self._sessions = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="mcp", daemon=True
                )
                self._thread.start()
            return self._loop


sessions = Sessions()
"""Those of this process."""
atexit.register(sessions.close)


async def listed(client: Client) -> dict[str, OfferedTool]:
    """Every tool that a server has now, by name."""
    tools: dict[str, OfferedTool] = {}
    cursor: str | None = None
    while len(tools) <= MOST_TOOLS:
        page = await client.list_tools(cursor=cursor)
        for one in page.tools:
            described = one.description or one.title or ""
            tools.setdefault(
                one.name,
                OfferedTool(name=one.name, description=described, parameters=one.input_schema),
            )
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _told(error: BaseException) -> BaseException:
    """The one error that groups of tasks may be wrapped around."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else ConnectionError("the session was closed")
