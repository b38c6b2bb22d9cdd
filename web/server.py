"""
The server that carries the application: uvicorn, told to keep its words and its time.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from mulligan.errors import EnvironmentUnfit

MOST_CONNECTIONS = 10_000
GRACEFUL_S = 5
"""How long requests that are under way have to end once the server is told to."""


def listen(host: str, port: int) -> socket.socket:
    """
    A socket that listens.

    Raises:
        EnvironmentUnfit: the address is taken, or none of this machine's.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise EnvironmentUnfit(
            f"can't listen on {host} port {port}: {error.strerror}; name another with --host or "
            "--port"
        ) from None
    return listener


def allow_connections() -> None:
    """Let this process have as many connections as the system lets it: each takes a descriptor."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Connection(H11Protocol):
    """Lets a response cut off a client that takes nothing: closing waits for it, for ever."""

    def connection_made(self, transport: Any) -> None:
        self.app_state = {**self.app_state, "cut_off": transport.abort}
        super().connection_made(transport)


class Server(uvicorn.Server):
    """Serves an application on a socket until `end` is called; `told` once it takes requests."""

    def __init__(self, app: FastAPI, told: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=GRACEFUL_S,
            )
        )
        self._told = told
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs a process."""
        yield

    def end(self) -> None:
        """Take no more requests and let those under way end; again: wait for none of them."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams first: they would last for ever."""
        self._app.state.surroundings.tails.leave()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests, and say so."""
        await super().startup(sockets)
        if self.started:
            self._told()
