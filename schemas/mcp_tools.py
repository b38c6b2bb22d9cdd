"""Tools that MCP servers supply, as plans record them (TOOL-3)."""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec

from mulligan.errors import InvalidInput

__all__ = ["Catalogue", "McpServer", "McpTool", "OfferedTool", "ServerUnfit", "mcp_names"]

_PATH = re.compile(r"mcp:(?P<server>[A-Za-z_][A-Za-z0-9_-]*)/(?P<tool>\S+)")


class McpServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    How a server is reached: `command` starts one that is spoken to over its standard streams, `url`
    is one of HTTP. `env`, `bearer` and the values of `headers` are names of variables in the
    environment of whoever connects; their values are in no plan.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    env: tuple[str, ...] = ()
    bearer: str | None = None
    headers: dict[str, str] = {}


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """A server's tool, by the name that the server has for it."""

    server: McpServer
    tool: str


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a server lists it; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Catalogue(Protocol):
    """What asks servers for their tools, when a workflow is compiled."""

    def tools(self, server: McpServer) -> dict[str, OfferedTool]:
        """Every tool of a server, by name. Raises InvalidInput where it can't be asked."""
        ...


class ServerUnfit(InvalidInput):
    """A server of a workflow can't be asked for its tools, whichever of them is wanted."""


def mcp_names(path: str) -> tuple[str, str] | None:
    """Server and tool of `mcp:server/tool`; None for any other path."""
    found = _PATH.fullmatch(path)
    return (found["server"], found["tool"]) if found is not None else None
