"""Our tools as an MCP server over stdio (WEB-8)."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as Listed

from mulligan._version import __version__
from mulligan.events.payload import canonical
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.web_rules import WebRules
from mulligan.tools.mcp.replies import replying
from mulligan.tools.read.tool import read
from mulligan.tools.registry import Tool
from mulligan.tools.result import ToolResult
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import BridgeClient, use
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.tool import web_use

__all__ = ["ToolServer"]


class ToolServer:
    """
    `web_use` over the bridge at `socket`, within `rules`, and, where there are `roots` (absolute
    paths), `read`. One client, whose pages are those of `window` or of a window made for it.
    """

    def __init__(
        self, socket: Path, rules: WebRules, *, window: str | None, roots: tuple[str, ...]
    ) -> None:
        self._socket = socket
        self._rules = rules
        self._window = window
        self._roots = roots
        self._session = secrets.token_urlsafe(12)

    def run(self) -> None:
        """Serve until the client closes our input."""
        anyio.run(self._serve)

    async def _serve(self) -> None:
        server: Server[Any] = Server(
            "mulligan",
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        options = server.create_initialization_options()
        try:
            async with stdio_server() as streams, replying(*streams) as (reading, writing):
                await server.run(reading, writing, options)
        finally:
            if self._window is None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._leave)

    def _leave(self) -> None:
        """The window that was made for this client is of use to nobody else."""
        with contextlib.suppress(WebUseFailed), BridgeClient(self._socket) as bridge:
            bridge.leave(self._caller("leave"))

    async def _list(
        self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools: list[Tool[..., Any]] = [web_use, *([read] if self._roots else [])]
        return ListToolsResult(
            tools=[
                Listed(
                    name=one.name,
                    description=one.spec().description,
                    input_schema=one.parameters,
                    annotations=ToolAnnotations(read_only_hint=one.effect == "read"),
                )
                for one in tools
            ]
        )

    async def _call(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        arguments = params.arguments or {}
        if params.name == web_use.name:
            call = partial(self._browse, arguments, str(context.request_id))
        elif params.name == read.name and self._roots:
            call = partial(self._read, arguments, str(context.request_id))
        else:
            raise MCPError(INVALID_PARAMS, "there is no tool of this name")
        return _answer(await anyio.to_thread.run_sync(call))

    def _browse(self, arguments: Mapping[str, Any], request: str) -> ToolResult:
        return use(self._socket, arguments, self._caller(request))

    def _caller(self, request: str) -> Caller:
        return Caller.outside(self._session, request, window=self._window, rules=self._rules)

    def _read(self, arguments: Mapping[str, Any], request: str) -> ToolResult:
        owner = f"session:{self._session}"
        context = RunContext(run=owner, call=request, owner=owner, read_roots=self._roots)
        return read.call(arguments, context=context)


def _answer(result: ToolResult) -> CallToolResult:
    """A result as the protocol has it; one that failed stays an error."""
    if result.is_error:
        value: Any = {"code": result.code, "message": result.message, "unknown": result.unknown}
    else:
        value = result.value
    text = value if isinstance(value, str) else canonical(value).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=value if isinstance(value, dict) else None,
        is_error=result.is_error,
    )
