"""
The body of a chat completion request, made from a `ModelRequest`.
"""

from __future__ import annotations

import urllib.parse
from typing import Any, assert_never

from mulligan.errors import InvalidInput
from mulligan.events.payload import canonical, digest_of
from mulligan.providers.port import Message, ModelRequest, Prepared, ToolOffer

NOT_PARAMETERS = frozenset(
    {"model", "messages", "tools", "stream", "stream_options", "response_format", "n"}
)
"""Keys of the body that are not the workflow's to set."""
OUTPUT_SCHEMA_NAME = "output"


def prepare(request: ModelRequest, model: str) -> Prepared:
    """
    Make the body; `model` is the id that stands in it.

    Raises:
        InvalidInput: a parameter that only mulligan sets.
    """
    taken = sorted(NOT_PARAMETERS & request.parameters.keys())
    if taken:
        raise InvalidInput(f"the parameter {taken[0]!r} can't be set: mulligan sets it itself")
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        **request.parameters,
        **_streaming(request.stream),
        **_output(request),
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    sent = {k: v for k, v in body.items() if k not in ("model", "messages", "tools")}
    digest = digest_of(canonical(body))
    return Prepared(request=request, model=model, sent=sent, digest=digest, body=body)


def tracing_headers(request: ModelRequest) -> dict[str, str]:
    """
    Headers that say whose request it is, percent-encoded: never part of the body.
    """
    named = {
        "node": request.node,
        "attempt": None if request.attempt is None else str(request.attempt),
        "invocation": request.request_id.rpartition("#")[0] or None,
        "request": request.request_id,
    }
    return {
        f"x-mulligan-{name}": urllib.parse.quote(value, safe="[]#.:/ ")
        for name, value in named.items()
        if value is not None
    }


def _streaming(stream: bool) -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True}} if stream else {}


def _output(request: ModelRequest) -> dict[str, Any]:
    match request.mode:
        case "tool" | "prompt":
            return {}
        case "native":
            schema = {
                "name": OUTPUT_SCHEMA_NAME,
                "strict": True,
                "schema": request.output_schema or {"type": "object"},
            }
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case _:
            assert_never(request.mode)


def _tool(tool: ToolOffer) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role}
    if message.content is not None or not message.calls:
        plain["content"] = message.content or ""
    if message.calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain
