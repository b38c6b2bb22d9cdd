"""
What the wire said: a response read as it comes, with nothing added to it.

Chat completions of the OpenAI format, streamed (server-sent events) or as one JSON body. Reading is
incremental over bytes and independent of how they are cut. What was not sent stays None: no finish
reason is made up, no usage counted, no arguments completed (REC-12, REC-21).
"""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from mulligan.events.facts import Usage
from mulligan.providers.calls import CallCollector
from mulligan.providers.error_names import named_by
from mulligan.providers.port import Hear, Piece, ToolCall
from mulligan.providers.repetition import DEFAULT_REPETITION, LoopWatch, Repetition
from mulligan.providers.sse import EventReader

_NATURAL = ("stop", "tool_calls")
"""Finish reasons that say nothing against a response."""


class WireError(msgspec.Struct, frozen=True, kw_only=True):
    """
    An error object, as far as it helps to classify it: the numbers and identifiers in it, and
    `named` for people. The provider's message is read for the wording of a used-up quota, and
    dropped.
    """

    status: int | None = None
    codes: tuple[str, ...] = ()
    quota: bool = False
    named: str | None = None


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """
    What was received. `done` tells whether `[DONE]` came, `broken` whether an event or the body was
    not to be read, `recognised` whether anything of a chat completion was in it, `repetitive`
    whether a stream fell into a loop and was not read any further (REC-16).
    """

    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str | None
    done: bool
    refused: bool
    usage: Usage | None
    served_model: str | None
    error: WireError | None
    broken: bool
    recognised: bool
    received_bytes: int
    reasoning_characters: int
    repetitive: bool = False

    def __repr__(self) -> str:
        return (
            f"Heard(<{len(self.text)} characters>, {len(self.calls)} calls, "
            f"finish_reason={self.finish_reason!r}, {self.received_bytes} bytes)"
        )


class WireReader:
    """
    Collects one response. `content_type` is that of its header; a JSON body in place of a stream
    (or the other way round) is read for what it is. `hear` is told the text and the arguments of a
    stream as they come, never its reasoning; a whole body streams nothing.
    """

    def __init__(
        self,
        content_type: str,
        repetition: Repetition = DEFAULT_REPETITION,
        hear: Hear | None = None,
    ) -> None:
        self._hear = hear
        self._watch = LoopWatch(repetition)
        self._sse = EventReader() if "event-stream" in content_type.lower() else None
        self._body = bytearray()
        self._calls = CallCollector()
        self._text: list[str] = []
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._served_model: str | None = None
        self._error: WireError | None = None
        self._done = False
        self._refused = False
        self._broken = False
        self._recognised = False
        self._received_bytes = 0
        self._reasoning_characters = 0

    @property
    def complete(self) -> bool:
        """Whether nothing that follows can matter: `[DONE]` or an error came, or a loop began."""
        return self._done or self._error is not None or self._watch.found

    @property
    def terminal(self) -> bool:
        """Whether a finish reason came."""
        return self._finish_reason is not None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        self._received_bytes += len(data)
        if self._sse is None:
            self._body += data
            return
        for event in self._sse.feed(data):
            self._event(event)

    def end(self) -> Heard:
        """Say what was heard in all, once the body has ended or is given up."""
        if self._sse is None:
            self._whole_body()
        return Heard(
            text="".join(self._text),
            calls=self._calls.calls(),
            finish_reason=self._finish_reason,
            done=self._done,
            refused=self._refused,
            usage=self._usage,
            served_model=self._served_model,
            error=self._error,
            broken=self._broken,
            recognised=self._recognised,
            received_bytes=self._received_bytes,
            reasoning_characters=self._reasoning_characters,
            repetitive=self._watch.found,
        )

    def _event(self, data: str) -> None:
        if self.complete:
            return
        if data.strip() == "[DONE]":
            self._done = True
            return
        chunk = _object(data)
        if chunk is None:
            self._broken = True
            return
        self._chunk(chunk, "delta")

    def _whole_body(self) -> None:
        if not self._body.strip():
            return
        if self._body.startswith(b"data:"):
            self._unlabelled_stream()
            return
        body = _object(bytes(self._body).removeprefix(codecs.BOM_UTF8))
        self._broken = body is None
        if body is not None:
            self._chunk(body, "message")

    def _unlabelled_stream(self) -> None:
        """Read a stream whose header did not say that it is one."""
        for event in EventReader().feed(bytes(self._body)):
            self._event(event)

    def _chunk(self, chunk: dict[str, Any], part: str) -> None:
        if chunk.get("error"):
            self._error = error_of(chunk["error"])
            return
        self._usage = usage_of(chunk.get("usage")) or self._usage
        if isinstance(chunk.get("model"), str):
            self._served_model = chunk["model"] or self._served_model
        choices = chunk.get("choices")
        self._recognised |= isinstance(choices, list) or self._usage is not None
        # One choice is asked for; a second would be another answer, not more of this one.
        firsts = [one for one in choices if _is_first(one)] if isinstance(choices, list) else []
        if len(firsts) > 1:
            self._broken = True
        elif firsts:
            self._choice(firsts[0], part)

    def _choice(self, choice: dict[str, Any], part: str) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and self._finish_reason in (None, *_NATURAL):
            self._finish_reason = reason  # a `stop` takes back no `length`
        if choice.get("error"):
            self._error = error_of(choice["error"])
        message = choice.get(part)
        if not isinstance(message, dict):
            return
        text = _text_of(message.get("content"))
        self._text.append(text)
        self._look("text", text, part)
        self._tell(text, None, part)
        self._refused |= bool(message.get("refusal"))
        for key in ("reasoning_content", "reasoning"):
            thought = _text_of(message.get(key))
            self._reasoning_characters += len(thought)
            self._look(key, thought, part)
        calls = message.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                self._call(call, position, part)

    def _call(self, call: dict[str, Any], position: int, part: str) -> None:
        before = self._calls.count
        # In a whole body calls have no index: each is one of its own.
        name, added = self._calls.add(call if part == "delta" else {**call, "index": position})
        if self._calls.count > before:
            self._watch.restart()
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        self._look(f"arguments {call.get('index')}", _text_of(arguments), part)
        if name is not None:
            self._tell(added, name, part)

    def _tell(self, text: str, tool: str | None, part: str) -> None:
        if self._hear is not None and text and part == "delta":
            self._hear(Piece(text, tool))

    def _look(self, stretch: str, text: str, part: str) -> None:
        """Look for a loop in what streams; a whole body can't be stopped any more."""
        if part == "delta":
            self._watch.feed(stretch, text)


def usage_of(reported: Any) -> Usage | None:
    """
    The usage as reported; what is missing or can be no count stays None, and 0 stays 0.
    """
    if not isinstance(reported, dict) or not reported:
        return None
    prompt = reported.get("prompt_tokens_details")
    completion = reported.get("completion_tokens_details")
    cost = reported.get("cost")
    return Usage(
        prompt_tokens=_count(reported, "prompt_tokens"),
        completion_tokens=_count(reported, "completion_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        cached_tokens=_count(prompt, "cached_tokens"),
        cost_usd=_number(cost),
    )


def error_of(error: Any) -> WireError:
    """What an error object says about itself, without its message."""
    if not isinstance(error, dict):
        return WireError(quota=_speaks_of_quota(str(error)))
    found = [error.get(key) for key in ("status_code", "status", "code", "type")]
    status = next((s for s in map(_status, found) if s is not None), None)
    codes = tuple(value.lower() for value in found if isinstance(value, str))
    quota = _speaks_of_quota(" ".join([str(error.get("message", "")), *codes]))
    return WireError(status=status, codes=codes, quota=quota, named=named_by(error))


QUOTA_WORDINGS = (
    "insufficient_quota",
    "exceeded your current quota",
    "quota exhausted",
    "billing_hard_limit",
    "billing_not_active",
    "credit balance",
    "insufficient credits",
    "insufficient balance",
)
"""How providers say that waiting will not help; a plain rate limit has none of them."""


def _speaks_of_quota(text: str) -> bool:
    return any(wording in text.lower() for wording in QUOTA_WORDINGS)


def _status(value: Any) -> int | None:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    is_status = isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599
    return number if is_status else None


MOST = 2**53
"""A count or a cost above this is none: sums and readers of JSON could not keep it exactly."""


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MOST else None


def _count(counts: Any, key: str) -> int | None:
    value = counts.get(key) if isinstance(counts, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MOST else None


def _is_first(choice: Any) -> bool:
    """Whether a member of `choices` is the one that was asked for; some send no index, or null."""
    return isinstance(choice, dict) and choice.get("index") in (None, 0)


def _text_of(content: Any) -> str:
    """Text, or the text of a list of parts, as some providers send it."""
    if isinstance(content, list):
        return "".join(_text_of(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _object(data: str | bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
