"""
How a scripted turn looks on the wire: the chunks of an OpenAI-compatible stream, or one JSON body.

Pure: a turn and the body of a request in, bytes out. The format is that of the chat completions API
(`chat.completion.chunk` objects as server-sent events, `data: [DONE]` at the end).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mulligan.testing.script import ScriptedCall, Turn

CREATED = 1_700_000_000
"""The `created` of every response: fixed, so that equal scripts give equal bytes."""
DONE = b"data: [DONE]\n\n"
SUBMIT = "submit_output"


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn says to one request: text in pieces, calls, and how it ends."""

    model: str
    text: tuple[str, ...]
    calls: tuple[ScriptedCall, ...]
    call_sizes: tuple[int, ...]
    finish_reason: str | None
    usage: dict[str, Any] | None
    refusal: str | None
    reasoning: str | None


def content_of(turn: Turn, body: dict[str, Any], serial: int) -> Content:
    """
    Settle what `turn` says to a request with this body; `serial` makes the ids of calls unique.
    """
    text = list(turn.pieces) or _cut(turn.text or "", turn.sizes)
    calls = list(turn.tool_calls)
    if turn.json is not msgspec.UNSET:
        if _offers_submit(body):
            calls.append(ScriptedCall(SUBMIT, {"output": turn.json, "assistant_message": None}))
        else:
            text += _cut(_json_text(turn.json), turn.sizes)
    named = [_with_id(call, f"call_{serial}_{n}") for n, call in enumerate(calls)]
    finish = ("tool_calls" if calls else "stop") if turn.finish_reason is msgspec.UNSET else None
    said = turn.finish_reason if isinstance(turn.finish_reason, str) else finish
    return Content(
        model=str(body.get("model", "scripted")),
        text=tuple(text),
        calls=tuple(named),
        call_sizes=tuple(turn.sizes),
        finish_reason=said,
        usage=_counted(body, text, named) if turn.usage is msgspec.UNSET else turn.usage,
        refusal=turn.refusal,
        reasoning=turn.reasoning,
    )


def stream_events(content: Content) -> Iterator[bytes]:
    """The events that carry the content, without finish reason, usage and `[DONE]`."""
    yield delta(content, {"role": "assistant", "content": "" if content.text else None})
    if content.reasoning is not None:
        yield delta(content, {"reasoning_content": content.reasoning})
    for piece in content.text:
        yield delta(content, {"content": piece})
    if content.refusal is not None:
        yield delta(content, {"refusal": content.refusal})
    for index, call in enumerate(content.calls):
        opening = {"name": call.name, "arguments": ""}
        yield _call_delta(content, index, {"id": call.id, "type": "function", "function": opening})
        for piece in _cut(str(call.arguments), list(content.call_sizes)):
            yield _call_delta(content, index, {"function": {"arguments": piece}})


def closing_events(content: Content, body: dict[str, Any]) -> Iterator[bytes]:
    """The events of the end: the finish reason, and the usage if the request asked for it."""
    if content.finish_reason is not None:
        yield event(_chunk(content, [_choice({}, content.finish_reason)]))
    if content.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        yield event({**_chunk(content, []), "usage": content.usage})


def whole_body(content: Content) -> bytes:
    """The response to a request that did not ask for a stream."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content.text) or None}
    if content.reasoning is not None:
        message["reasoning_content"] = content.reasoning
    if content.refusal is not None:
        message["refusal"] = content.refusal
    if content.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in content.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": content.finish_reason}
    answer = _chunk(content, [choice]) | {"object": "chat.completion"}
    return msgspec.json.encode(
        answer if content.usage is None else answer | {"usage": content.usage}
    )


def event(data: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def delta(content: Content, change: dict[str, Any]) -> bytes:
    """One event with a piece of the message."""
    return event(_chunk(content, [_choice(change, None)]))


def _call_delta(content: Content, index: int, change: dict[str, Any]) -> bytes:
    return delta(content, {"tool_calls": [{"index": index, **change}]})


def _choice(change: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": change, "finish_reason": finish_reason}


def _chunk(content: Content, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": content.model,
        "choices": choices,
    }


def _cut(text: str, sizes: list[int]) -> list[str]:
    """Cut text into pieces of these many characters; the last size goes on."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[min(len(pieces), len(sizes) - 1)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


def _offers_submit(body: dict[str, Any]) -> bool:
    return any(tool.get("function", {}).get("name") == SUBMIT for tool in body.get("tools") or [])


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _with_id(call: ScriptedCall, made_up: str) -> ScriptedCall:
    text = call.arguments if isinstance(call.arguments, str) else _json_text(call.arguments)
    return ScriptedCall(name=call.name, arguments=text, id=call.id or made_up)


def _counted(body: dict[str, Any], text: list[str], calls: list[ScriptedCall]) -> dict[str, Any]:
    """Tokens by the rule of thumb of four characters each, since a script has no tokenizer."""
    asked = sum(len(str(message.get("content") or "")) for message in body.get("messages") or [])
    said = len("".join(text)) + sum(len(str(call.arguments)) for call in calls)
    prompt, completion = 1 + asked // 4, 1 + said // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
