"""The way to one server: its process or its address, with the values that plans only name."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client

from mulligan._version import __version__
from mulligan.errors import ToolError
from mulligan.schemas.mcp_tools import McpServer
from mulligan.settings import Settings, load_settings
from mulligan.tools.mcp.bounded_http import BoundedTransport
from mulligan.tools.mcp.pipes import piped
from mulligan.tools.mcp.unusable import MOST_ANSWER_BYTES

__all__ = ["SERVER_UNAVAILABLE", "connected"]

SERVER_UNAVAILABLE = "server_unavailable"
"""Nothing was asked of the server: it is not there, does not start, or lacks a variable here."""

SILENCE_S = 300.0
"""How long an HTTP server may say nothing within an answer; calls have times of their own."""


@asynccontextmanager
async def connected(server: McpServer) -> AsyncIterator[Client]:
    """
    A client of the server, past its handshake.

    Raises ToolError, `server_unavailable`, where a program or a variable is missing here, and what
    the SDK raises where the server does not answer.
    """
    settings = load_settings()
    _quiet(settings)
    if server.url is not None:
        headers = _headers(server, settings)
        timeout = httpx2.Timeout(30.0, read=SILENCE_S)
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=timeout, trust_env=False, transport=BoundedTransport()
            ) as http,
            Client(_streams(server.url, http), cache=None) as client,
        ):
            yield client
        return
    # What a server says on stderr is its own: it may hold what it was given, so it is not logged.
    with open(os.devnull, "w") as nowhere:
        said = sys.stderr if settings.log_level == "debug" else nowhere
        command, environment = _process(server, settings)
        async with Client(piped(command, environment, said), cache=None) as client:
            yield client


def _streams(url: str, http: httpx2.AsyncClient) -> Any:
    return streamable_http_client(url, http_client=http, max_sse_event_size=MOST_ANSWER_BYTES)


def _quiet(settings: Settings) -> None:
    """The SDK logs what it can't read, and what a server says may be anything."""
    level = logging.NOTSET if settings.log_level == "debug" else logging.CRITICAL + 1
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(level)


def _process(server: McpServer, settings: Settings) -> tuple[list[str], dict[str, str]]:
    """Its command and its whole environment."""
    named = {name: _value(name, settings) for name in server.env}
    environment = get_default_environment() | named
    program, *arguments = server.command
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise ToolError(SERVER_UNAVAILABLE, f"there is no program {program!r} here to start")
    tether = str(Path(__file__).with_name("tether.py"))
    return [sys.executable, "-I", tether, str(os.getpid()), found, *arguments], environment


def _headers(server: McpServer, settings: Settings) -> dict[str, str]:
    headers = {name: _value(variable, settings) for name, variable in server.headers.items()}
    if server.bearer is not None:
        headers["Authorization"] = f"Bearer {_value(server.bearer, settings)}"
    return {"User-Agent": f"mulligan/{__version__}", **headers}


def _value(variable: str, settings: Settings) -> str:
    value = settings.provider_key(variable)
    if value is None:
        raise ToolError(
            SERVER_UNAVAILABLE, f"the variable {variable}, which the server wants, is not set here"
        )
    return value.get_secret_value()
