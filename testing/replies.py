"""
What the scripted model puts on the wire for a turn, its fault included.

Pure: a turn, the body of the request and a serial number in, a `Reply` out, which the server plays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Literal, assert_never

import msgspec

from mulligan.testing import faults
from mulligan.testing.script import Turn
from mulligan.testing.wire_format import (
    DONE,
    Content,
    closing_events,
    content_of,
    delta,
    event,
    stream_events,
    whole_body,
)

End = Literal["complete", "close", "reset", "hang"]
"""How the body ends: as it should, by a closed connection, by a reset, or never."""

HTML_PAGE = (
    b"<!DOCTYPE html><html><head><title>Sign in</title></head>"
    b"<body>This page is no model.</body></html>"
)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """
    A response: status, content type and other headers, the pieces of the body with a pause before
    each, and how it ends. With `silent` not even the status line is sent.
    """

    pieces: Iterable[bytes]
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = {}
    pause_ms: int = 0
    end: End = "complete"
    silent: bool = False


def reply_to(turn: Turn, body: dict[str, Any], serial: int) -> Reply:
    """The response of `turn` to a request with this body."""
    content = content_of(turn, body, serial)
    reply = _reply(turn, content, body)
    pause_ms = reply.pause_ms or turn.chunk_delay_ms
    return msgspec.structs.replace(reply, pause_ms=pause_ms)


def error_reply(status: int, error: dict[str, Any], headers: dict[str, str] | None = None) -> Reply:
    """An error as a JSON body."""
    text = msgspec.json.encode({"error": error})
    return Reply(
        pieces=[text], status=status, content_type="application/json", headers=headers or {}
    )


def _reply(turn: Turn, content: Content, body: dict[str, Any]) -> Reply:
    match turn.fault:
        case None | faults.Stall() | faults.Cut() | faults.Reset() as fault:
            return _stopped(_whole(content, body), fault)
        case faults.Eof() as fault:
            return _ended(content, body, fault)
        case faults.NoDone():
            return _streamed([*stream_events(content), *closing_events(content, body)])
        case faults.Loop() as fault:
            text = itertools.chain(content.text, itertools.repeat(fault.text, fault.times))
            return _looping(content, body, text)
        case faults.Status() as fault:
            return _refused(fault)
        case faults.Html() as fault:
            return Reply(pieces=[HTML_PAGE], status=fault.status, content_type="text/html")
        case faults.Relabel() as fault:
            return _whole(_shortened(content, fault.at_character), body)
        case faults.SlowReasoning() as fault:
            return _reasoning(content, body, fault)
        case faults.OtherModel() as fault:
            return _whole(msgspec.structs.replace(content, model=fault.model), body)
        case faults.ErrorEvent() as fault:
            return _failing(content, fault)
        case faults.Empty() as fault:
            return _streamed([DONE] if fault.done else [])
        case faults.Garbage():
            events = list(stream_events(content))
            middle = len(events) // 2
            broken = [*events[:middle], b'data: {"choices": [{\n\n', *events[middle:]]
            return _streamed([*broken, *closing_events(content, body), DONE])
        case _:
            assert_never(turn.fault)


def _streamed(pieces: Iterable[bytes]) -> Reply:
    return Reply(pieces=pieces)


def _whole(content: Content, body: dict[str, Any]) -> Reply:
    if not body.get("stream"):
        return Reply(pieces=[whole_body(content)], content_type="application/json")
    return _streamed([*stream_events(content), *closing_events(content, body), DONE])


def _stopped(reply: Reply, fault: faults.Cut | faults.Reset | faults.Stall | None) -> Reply:
    """Stop the body after some bytes, and end it in the fault's way."""
    pieces = list(reply.pieces)
    match fault:
        case None:
            return reply
        case faults.Cut():
            end: End = "close"
        case faults.Reset():
            if fault.at_byte is None:
                return Reply(pieces=[], end="reset", silent=True)
            end = "reset"
        case faults.Stall():
            if not fault.headers:
                return Reply(pieces=[], end="hang", silent=True)
            end = "hang"
        case _:
            assert_never(fault)
    return msgspec.structs.replace(reply, pieces=_first(pieces, fault.at_byte), end=end)


def _ended(content: Content, body: dict[str, Any], fault: faults.Eof) -> Reply:
    if not body.get("stream"):
        cut = _first([whole_body(content)], fault.at_byte)
        return Reply(pieces=cut, content_type="application/json")
    events = list(stream_events(content))
    kept = events if fault.at_byte is None else _first(events, fault.at_byte)
    return _streamed([*kept, *([DONE] if fault.done else [])])


def _looping(content: Content, body: dict[str, Any], text: Iterable[str]) -> Reply:
    if not body.get("stream"):
        return _whole(msgspec.structs.replace(content, text=tuple(text)), body)
    # One event at a time: the client is meant to hang up long before the end.
    events = (delta(content, {"content": piece}) for piece in text)
    return _streamed(itertools.chain(events, closing_events(content, body), [DONE]))


def _refused(fault: faults.Status) -> Reply:
    kind = "insufficient_quota" if fault.quota else fault.type or "scripted_error"
    message = "You exceeded your current quota" if fault.quota else fault.message
    error = {"message": message, "type": kind, "code": fault.code or kind, "param": fault.param}
    headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    return error_reply(fault.status, error, headers)


def _shortened(content: Content, at_character: int | None) -> Content:
    """Stop the content where an output limit might: in its last call, or else in its text."""
    if content.calls:
        *others, last = content.calls
        arguments = str(last.arguments)
        keep = len(arguments) // 2 if at_character is None else at_character
        cut = msgspec.structs.replace(last, arguments=arguments[:keep])
        return msgspec.structs.replace(content, calls=(*others, cut))
    text = "".join(content.text)
    keep = len(text) // 2 if at_character is None else at_character
    return msgspec.structs.replace(content, text=(text[:keep],))


def _reasoning(content: Content, body: dict[str, Any], fault: faults.SlowReasoning) -> Reply:
    thoughts = [delta(content, {"reasoning_content": "hm "})] * fault.count
    rest = _whole(content, body)
    if not body.get("stream"):
        return rest
    return Reply(pieces=[*thoughts, *rest.pieces], pause_ms=fault.every_ms)


def _failing(content: Content, fault: faults.ErrorEvent) -> Reply:
    error = {"message": fault.message, "type": fault.type, "code": fault.code or fault.status}
    kept = _first(list(stream_events(content)), fault.at_byte, whole_events=True)
    return _streamed([*kept, event({"choices": [], "error": error}), *([DONE] * fault.done)])


def _first(
    pieces: list[bytes], at_byte: int | None, *, whole_events: bool = False
) -> Iterator[bytes]:
    """The pieces up to a byte, by default the middle one; with `whole_events` none is cut."""
    left = sum(map(len, pieces)) // 2 if at_byte is None else at_byte
    for piece in pieces:
        if left <= 0 or (whole_events and left < len(piece)):
            return
        yield piece[:left]
        left -= len(piece)
