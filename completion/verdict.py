"""
What the completion protocol says of a candidate: a value, or the reason why there is none.

A verdict is a value, never an exception. Nothing here prints what a model wrote: `repr` and `str`
name kinds, counts and rules only, so that a verdict may appear in a log or a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

MAX_ISSUES = 20
"""OUT-5: more issues than these are not told."""

MAX_DETAIL_CHARACTERS = 512
"""OUT-5: the length of a message and of the detail as a whole."""


class Evidence(msgspec.Struct, frozen=True):
    """
    What the wire said about a response.

    Args:
        finish_reason: as received, in whatever spelling; None if none came.
        terminal: whether a terminal event was seen (REC-12); a stream that just ended has none.
        completion_tokens: as the provider reported them; None if it did not.
        max_tokens_sent: the output cap of the request's body; None if none was sent.
    """

    finish_reason: str | None
    terminal: bool
    completion_tokens: int | None = None
    max_tokens_sent: int | None = None


class Step(msgspec.Struct, frozen=True):
    """One step of the ladder that changed or read the text; `detail` holds no content."""

    name: str
    detail: str = ""


class Issue(msgspec.Struct, frozen=True):
    """
    One thing that is wrong: a code, where (JSON pointers into value and schema), and the rule.

    A path names only what the schema names; other keys of the candidate stand as `*`.
    """

    code: str
    path: str = ""
    schema_path: str = ""
    message: str = ""


class Coercion(msgspec.Struct, frozen=True):
    """A change that lost nothing: which rule of the fixed list, and where."""

    path: str
    rule: str


class _Verdict(msgspec.Struct, frozen=True, tag_field="verdict", kw_only=True):
    steps: tuple[Step, ...] = ()


class Completed(_Verdict, frozen=True, tag="completed", kw_only=True):
    """The candidate is whole, and `output` fits the schema."""

    output: Any
    assistant_message: str | None = None
    coercions: tuple[Coercion, ...] = ()

    def __repr__(self) -> str:
        steps = ", ".join(step.name for step in self.steps)
        return f"Completed(output=<{type(self.output).__name__}>, steps=[{steps}])"


class _Failure(_Verdict, frozen=True, kw_only=True):
    issues: tuple[Issue, ...] = ()


class TruncatedResponse(_Failure, frozen=True, tag="truncated", kw_only=True):
    """The response was cut off; nothing of it may be used."""


class Refused(_Failure, frozen=True, tag="refused", kw_only=True):
    """The model or the provider refused; neither repair nor retry."""


class InvalidJson(_Failure, frozen=True, tag="invalid_json", kw_only=True):
    """The text is whole, but is not, and can't safely be made into, exactly one value."""


class WrongEnvelope(_Failure, frozen=True, tag="wrong_envelope", kw_only=True):
    """A value, but neither `{output, assistant_message}` nor the output itself."""


class SchemaViolation(_Failure, frozen=True, tag="schema_violation", kw_only=True):
    """An output that does not fit the schema."""


Failure = TruncatedResponse | Refused | InvalidJson | WrongEnvelope | SchemaViolation
Verdict = Completed | Failure
VerdictName = Literal[
    "completed", "truncated", "refused", "invalid_json", "wrong_envelope", "schema_violation"
]


def verdict_name(verdict: Verdict) -> VerdictName:
    """The verdict's name in contracts: `completed`, `truncated`, `refused`, …"""
    name: VerdictName = verdict.__struct_config__.tag  # type: ignore[assignment]
    return name


def detail(issues: Sequence[Issue]) -> str:
    """The issues as one text of at most 512 characters, for a prompt or an event."""
    lines = [f"{issue.path or '/'}: {issue.message} ({issue.code})" for issue in issues]
    return shortened("\n".join(lines), MAX_DETAIL_CHARACTERS)


def shortened(text: str, limit: int) -> str:
    """The text, with an ellipsis for what is beyond the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
