"""A call of an MCP server's tool, so that whatever happens comes back as a result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolResult,
    TextContent,
)

from mulligan.errors import ToolError
from mulligan.events.facts import ToolOutcome
from mulligan.schemas.mcp_spec import argument_validator, parameters_digest
from mulligan.schemas.mcp_tools import OfferedTool
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.tool_spec import DEFAULT_TOOL_TIMEOUT_MS, ToolSpec
from mulligan.tools.mcp.connection import SERVER_UNAVAILABLE
from mulligan.tools.mcp.sessions import listed, sessions
from mulligan.tools.result import MAX_ISSUES, ToolResult, failure, success

__all__ = ["KEY_META", "McpCall"]

KEY_META = "mulligan.dev/idempotency-key"
"""Where a request's `_meta` has the key of its call, for servers that know it."""

_NOT_DONE = (INVALID_PARAMS, METHOD_NOT_FOUND)
"""Errors by which a server says that it did not do it; any other may have come after it did."""


class McpCall:
    """
    A tool of a server as a plan froze it, called as a Python tool is.

    Arguments are held to the frozen schema as they are: no null is taken away. Before each call the
    server is asked what the tool is like now; one that has changed is refused, `tool_changed`.
    """

    def __init__(self, spec: ToolSpec) -> None:
        assert spec.mcp is not None
        self._spec = spec
        self._mcp = spec.mcp

    def call(
        self,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        context: RunContext | None = None,
    ) -> ToolResult:
        """
        Ask the server, once. Never raises for what comes of it. The result is `unknown` where the
        request was sent and no answer says what became of it.
        """
        refused = _misfit(self._spec.parameters, arguments)
        if refused is not None:
            return refused
        return sessions.run(self._called(dict(arguments), key))

    def observe(
        self,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        context: RunContext | None = None,
    ) -> ToolOutcome:
        """A server has no way to tell what became of an earlier call."""
        return "unknown"

    async def _called(self, arguments: dict[str, Any], key: str | None) -> ToolResult:
        sent = _Sent()
        try:
            async with asyncio.timeout((self._spec.timeout_ms or DEFAULT_TOOL_TIMEOUT_MS) / 1_000):
                return await self._in_session(arguments, key, sent)
        except ToolError as error:
            return failure(error)
        except TimeoutError:
            return _error("timeout", "the server did not answer in time", unknown=sent.sent)
        except MCPError as error:
            return _protocol_error(error, sent)
        except Exception as error:
            return _broken(error, sent)

    async def _in_session(
        self, arguments: dict[str, Any], key: str | None, sent: _Sent
    ) -> ToolResult:
        """In the session that is there, or, where that has ended meanwhile, in a new one."""

        async def ask(client: Client) -> ToolResult:
            return await self._ask(client, arguments, key, sent)

        session = sessions.of(self._mcp.server)
        had_served = session.served
        try:
            return await session.use(ask)
        except ToolError:
            raise
        except asyncio.CancelledError:  # out of time
            if not sent.sent and session.silent:
                sessions.drop(session)  # it hangs, and would for whoever comes next
            raise
        except Exception as error:
            if not sent.sent or _closed(error):
                sessions.drop(session)
            if sent.sent or not had_served:
                raise
        return await sessions.of(self._mcp.server).use(ask)

    async def _ask(
        self, client: Client, arguments: dict[str, Any], key: str | None, sent: _Sent
    ) -> ToolResult:
        self._check(await listed(client))
        meta: Any = {KEY_META: key} if key is not None else None
        sent.sent = True
        answer = await client.session.call_tool(self._mcp.tool, arguments, meta=meta)
        return _result(answer)

    def _check(self, tools: Mapping[str, OfferedTool]) -> None:
        now = tools.get(self._mcp.tool)
        if now is None:
            raise ToolError("tool_changed", "the server does not offer this tool any more")
        if parameters_digest(now.parameters) != self._spec.digest:
            raise ToolError(
                "tool_changed",
                "the server's tool takes other arguments now than when the run began; enqueue the "
                "workflow anew",
            )


def _closed(error: Exception) -> bool:
    return not isinstance(error, MCPError) or error.code == CONNECTION_CLOSED


class _Sent:
    """Whether the request of a call may have reached its server."""

    sent = False


def _misfit(parameters: dict[str, Any], arguments: Mapping[str, Any]) -> ToolResult | None:
    issues = [
        f"{'.'.join(map(str, one.instance_path)) or 'arguments'}: {_rule(one)}"
        for one in argument_validator(parameters).iter_errors(dict(arguments))
    ]
    if not issues:
        return None
    more = f"; and {len(issues) - MAX_ISSUES} more" if len(issues) > MAX_ISSUES else ""
    return _error("invalid_arguments", "; ".join(issues[:MAX_ISSUES]) + more)


def _rule(issue: Any) -> str:
    """The rule that is broken, in the schema's words; never the value."""
    word = str(issue.schema_path[-1]) if issue.schema_path else "schema"
    return str(issue.message) if word == "required" else f"breaks the schema's {word}"


def _result(answer: Any) -> ToolResult:
    assert isinstance(answer, CallToolResult)
    if answer.is_error:
        said = "\n".join(one.text for one in answer.content if isinstance(one, TextContent))
        return _error("tool_error", said or "the tool says that it failed, and not why")
    if answer.structured_content is not None:
        return success(answer.structured_content)
    texts = [one.text for one in answer.content if isinstance(one, TextContent)]
    if len(texts) == len(answer.content):
        return success("\n".join(texts))
    return success([one.model_dump(mode="json", exclude_none=True) for one in answer.content])


def _protocol_error(error: MCPError, sent: _Sent) -> ToolResult:
    if not sent.sent:
        return _unavailable(error)
    if error.code == CONNECTION_CLOSED:
        what = "it ended, or said something that is too large or can't be read"
        return _error(
            "no_answer", f"the server gave no answer that can be used: {what}", unknown=True
        )
    unknown = error.code not in _NOT_DONE
    return _error("tool_error", f"the server answered with an error: {error}", unknown=unknown)


def _broken(error: Exception, sent: _Sent) -> ToolResult:
    if not sent.sent:
        return _unavailable(error)
    what = "the server gave no answer that can be used"
    return _error("no_answer", f"{what} ({type(error).__name__})", unknown=True)


def _unavailable(error: Exception) -> ToolResult:
    what = "the server did not answer, or ended before it did"
    return _error(SERVER_UNAVAILABLE, f"{what} ({type(error).__name__}); it was asked for nothing")


def _error(code: str, message: str, *, unknown: bool = False) -> ToolResult:
    return failure(ToolError(code, message, unknown=unknown))
