"""
The server that carries the application: uvicorn, told to keep its words and its time.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

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
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise EnvironmentUnfit(
            f"can't listen on {host} port {port}: {error.strerror}; name another with --host or "
            "--port"
        ) from None
    return listener


class Server(uvicorn.Server):
    """Serves an application on a socket until `end` is called; `told` once it takes requests."""

    def __init__(self, app: ASGIApp, told: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs a process."""
        yield

    def end(self) -> None:
        """Take no more requests and let those under way end; again: wait for none of them."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests, and say so."""
        await super().startup(sockets)
        if self.started:
            self._told()
