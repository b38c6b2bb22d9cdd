"""The way to one server: its process or its address, with the values that plans only name."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client

from mulligan._version import __version__
from mulligan.errors import ToolError
from mulligan.schemas.mcp_tools import McpServer
from mulligan.settings import Settings, load_settings

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
            httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http,
            Client(streamable_http_client(server.url, http_client=http), cache=None) as client,
        ):
            yield client
        return
    # What a server says on stderr is its own: it may hold what it was given, so it is not logged.
    with open(os.devnull, "w") as nowhere:
        said = sys.stderr if settings.log_level == "debug" else nowhere
        async with Client(stdio_client(_process(server, settings), said), cache=None) as client:
            yield client


def _quiet(settings: Settings) -> None:
    """The SDK logs what it can't read, and what a server says may be anything."""
    level = logging.NOTSET if settings.log_level == "debug" else logging.CRITICAL + 1
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(level)


def _process(server: McpServer, settings: Settings) -> StdioServerParameters:
    environment = {name: _value(name, settings) for name in server.env}
    path = (get_default_environment() | environment).get("PATH")
    program, *arguments = server.command
    found = shutil.which(program, path=path)
    if found is None:
        raise ToolError(SERVER_UNAVAILABLE, f"there is no program {program!r} here to start")
    tether = str(Path(__file__).with_name("tether.py"))
    given = ["-I", tether, str(os.getpid()), found, *arguments]
    return StdioServerParameters(command=sys.executable, args=given, env=environment)


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
