"""
What a scripted response can do wrong, one struct each, named by `kind`.

`at_byte` counts the bytes of the response's body; left out, it is the middle of the body.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Bytes = Annotated[int, msgspec.Meta(ge=0)]
HttpStatus = Annotated[int, msgspec.Meta(ge=200, le=599)]


class FaultShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every fault has: its kind."""


class Cut(FaultShape, frozen=True, tag="cut"):
    """The connection is closed after `at_byte` bytes, in the middle of the body."""

    at_byte: Bytes | None = None


class Eof(FaultShape, frozen=True, tag="eof"):
    """
    The body ends as if all were well, but without finish reason, usage and `[DONE]`; with `at_byte`
    it ends there. `done: true` sends `[DONE]` all the same.
    """

    at_byte: Bytes | None = None
    done: bool = False


class NoDone(FaultShape, frozen=True, tag="no_done"):
    """The finish reason is sent, `[DONE]` is not."""


class Reset(FaultShape, frozen=True, tag="reset"):
    """The connection is reset after `at_byte` bytes; left out, before anything is answered."""

    at_byte: Bytes | None = None


class Stall(FaultShape, frozen=True, tag="stall"):
    """
    After `at_byte` bytes nothing more comes, and the connection stays open. `headers: false` holds
    back the status line as well.
    """

    at_byte: Bytes | None = None
    headers: bool = True


class Loop(FaultShape, frozen=True, tag="loop"):
    """After what the turn says, `text` is repeated, `times` times; then the turn ends."""

    text: str = "and so on "
    times: int = 2000


class Status(FaultShape, frozen=True, tag="status"):
    """
    A JSON error under `status`, with Retry-After in seconds (or a date as a string) if given.
    `quota: true` words it as a quota that is used up.
    """

    status: HttpStatus
    retry_after: float | str | None = None
    quota: bool = False
    message: str = "the scripted model was told to refuse"
    code: str | None = None
    type: str | None = None
    param: str | None = None


class Html(FaultShape, frozen=True, tag="html"):
    """A web page, with status 200 unless another is given."""

    status: HttpStatus = 200


class Relabel(FaultShape, frozen=True, tag="relabel"):
    """
    The content stops after `at_character` characters (left out: half), as at an output limit, and
    the finish reason is the turn's own all the same.
    """

    at_character: int | None = None


class SlowReasoning(FaultShape, frozen=True, tag="slow_reasoning"):
    """`count` pieces of reasoning come first, `every_ms` apart."""

    count: int = 5
    every_ms: int = 100


class OtherModel(FaultShape, frozen=True, tag="other_model"):
    """The response names another model than the request."""

    model: str = "another-model"


class ErrorEvent(FaultShape, frozen=True, tag="error_event"):
    """After `at_byte` bytes of the 200 stream comes an error object; then the body ends."""

    at_byte: Bytes | None = None
    status: int | None = 502
    code: str | None = None
    type: str | None = None
    message: str = "the scripted model was told to fail"
    done: bool = True


class Empty(FaultShape, frozen=True, tag="empty"):
    """A stream without a single event; `done: true` sends `[DONE]` alone."""

    done: bool = False


class Garbage(FaultShape, frozen=True, tag="garbage"):
    """An event in the middle of the stream is not JSON; the rest is as the turn says."""


Fault = (
    Cut
    | Eof
    | NoDone
    | Reset
    | Stall
    | Loop
    | Status
    | Html
    | Relabel
    | SlowReasoning
    | OtherModel
    | ErrorEvent
    | Empty
    | Garbage
)
