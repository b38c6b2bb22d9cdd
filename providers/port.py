"""
The port to whoever answers prompts.

A provider turns one `ModelRequest` into exactly one dispatch and reports what the wire said about
it: an `Answer` (which may well be cut off or empty; judging it is the decisions' business) or a
`Failure`. It retries nothing, falls back to nothing and invents nothing (REC-2, REC-21, REC-26).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from mulligan.events.facts import Cause, OutputMode, Usage


class ToolCall(msgspec.Struct, frozen=True):
    """A function call: the provider's id, the name, the arguments as the raw text received."""

    id: str
    name: str
    arguments: str

    def __repr__(self) -> str:
        return f"ToolCall({self.id!r}, {self.name!r}, <{len(self.arguments)} characters>)"


class Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One message of a conversation; a `tool` message answers the call `tool_call_id`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def __repr__(self) -> str:
        return f"Message({self.role!r}, <{len(self.content or '')} characters>)"


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """
    A function that the model may call; `parameters` is a JSON Schema of an object, to which with
    `strict` the provider holds the model while it writes.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = False


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    What to ask. `parameters` are those that the workflow set (`max_tokens`, `temperature`, …);
    `output_schema` is sent in `native` mode only. `api_base` and the names of keys come from the
    settings; no secret is in here.
    """

    request_id: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...] = ()
    mode: OutputMode = "tool"
    parameters: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    api_base: str | None = None
    stream: bool = True
    node: str | None = None
    attempt: int | None = None


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """
    The request as it will leave: the body's model, its parameters (all but messages and tools),
    the SHA-256 of the body's canonical JSON, and the body.
    """

    request: ModelRequest
    model: str
    sent: dict[str, Any]
    digest: str
    body: dict[str, Any]

    def __repr__(self) -> str:
        return f"Prepared({self.request.request_id!r}, {self.model!r}, {self.digest[:12]})"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """
    A response that came to its end, clean or not.

    `finish_reason` as received, None if none came; `terminal` whether a terminal event (a finish
    reason) was seen; `usage` None if the provider reported none; `refused` whether the provider
    marked the message as a refusal; `repetitive` whether it was stopped since it fell into a loop
    (REC-16): then nothing was heard of its end.
    """

    finish_reason: str | None
    terminal: bool
    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    served_model: str | None = None
    refused: bool = False
    repetitive: bool = False

    def __repr__(self) -> str:
        return (
            f"Answer(finish_reason={self.finish_reason!r}, <{len(self.text)} characters>, "
            f"{len(self.calls)} calls)"
        )


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """
    A request without an answer. `transient`: the transport or the provider may do better next time
    (REC-17). `cause` has a fixed message: no provider text, no header, no key.
    """

    cause: Cause
    transient: bool
    retry_after_ms: int | None = None


class Piece(msgspec.Struct, frozen=True):
    """
    A stretch of a response while it streams, as received: of the message's text, or of the
    arguments of a call of the function `tool`.
    """

    text: str
    tool: str | None = None

    def __repr__(self) -> str:
        return f"Piece(<{len(self.text)} characters>, {self.tool!r})"


Hear = Callable[[Piece], None]
"""
Told each piece as it comes, on the thread that reads the wire: it must return at once and raise
nothing. Reasoning is never told (REC-22).
"""


class Cancellation:
    """Tells whoever waits in another thread to stop; thread-safe, one way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel, once; what subscribed is called in this thread."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback` on cancellation; at once if that was before."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()


class Provider(Protocol):
    """Safe for use by threads; one instance serves a process."""

    def prepare(self, request: ModelRequest) -> Prepared:
        """
        Say what would be sent, sending nothing.

        Raises:
            EnvironmentUnfit: no key for this provider, or no provider for this model.
        """
        ...

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        """
        Send exactly `prepared.body`, once, and read the response to its end; `hear` is told what
        streams meanwhile, and is no evidence of anything. On cancellation the
        connection is closed and the result is a `Failure` of the kind `cancelled`, unless the
        response had come to its end before.
        """
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...
