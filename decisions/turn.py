"""
What a model's answer is, before anything is done about it.

Evidence comes first: an answer without a terminal event, or that stopped at a limit, is cut,
however complete its text looks (REC-11, REC-12). Calls come from the provider's function-call
events only; text that looks like one is text (REC-15).
"""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.decisions.conversation import CALL_SUBAGENT, HARNESS_TOOLS, SUBMIT_OUTPUT
from mulligan.events.facts import OutputMode, RetryReason
from mulligan.providers.port import Answer, ToolCall

CUT_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "incomplete"})
REFUSALS = frozenset({"content_filter", "refusal", "safety"})


class Submitted(msgspec.Struct, frozen=True):
    """A final output was offered: the raw candidate, and the call that carries it."""

    raw: str
    call: ToolCall | None

    def __repr__(self) -> str:
        return f"Submitted(<{len(self.raw)} characters>)"


class Called(msgspec.Struct, frozen=True):
    """Executable calls, each with its decoded arguments."""

    calls: tuple[tuple[ToolCall, dict[str, Any]], ...]


class AskedUser(msgspec.Struct, frozen=True):
    """A question to the user."""

    call: ToolCall


class Failed(msgspec.Struct, frozen=True):
    """A turn that is of no use, and the reason that the allowance counts it under."""

    reason: RetryReason
    message: str


class Refused(msgspec.Struct, frozen=True):
    """The model, or a filter before it, refuses."""


TurnKind = Submitted | Called | AskedUser | Failed | Refused


def classify(answer: Answer, mode: OutputMode, cap_sent: int | None) -> TurnKind:
    """What the answer to a request in `mode`, sent with `cap_sent` as its output cap, is."""
    cut = _cut(answer, cap_sent)
    if cut is not None:
        return cut
    if answer.finish_reason in REFUSALS:
        return Refused()
    harness = [call for call in answer.calls if call.name in HARNESS_TOOLS]
    others = [call for call in answer.calls if call.name not in HARNESS_TOOLS]
    if harness and (others or len(harness) > 1):
        return Failed("mixed_turn", "harness calls stand alone in a turn; nothing of it was run")
    if harness:
        call = harness[0]
        return Submitted(call.arguments, call) if call.name == SUBMIT_OUTPUT else AskedUser(call)
    if others:
        return _called(others)
    return _text(answer, mode)


def _cut(answer: Answer, cap_sent: int | None) -> Failed | None:
    if not answer.terminal:
        return Failed("eof", "the response ended without a terminal event")
    if answer.finish_reason in CUT_REASONS:
        return Failed("length", "the response stopped at its output limit")
    used = answer.usage.completion_tokens if answer.usage else None
    if cap_sent is not None and used is not None and used >= cap_sent:
        return Failed("length", "the response used up the output limit that was sent")
    return None


def _called(calls: list[ToolCall]) -> Called | Failed:
    decoded = [(call, _arguments(call)) for call in calls]
    if any(arguments is None for _, arguments in decoded):
        return Failed("invalid_json", "the arguments of a tool call are not a JSON object")
    return Called(tuple((call, arguments) for call, arguments in decoded if arguments is not None))


def _arguments(call: ToolCall) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(answer: Answer, mode: OutputMode) -> Submitted | Failed:
    if not answer.text.strip():
        return Failed("empty_turn", "the response holds neither a call nor text")
    if mode == "tool":
        return Failed("wrong_envelope", "the response is text; the output is handed in by a call")
    return Submitted(answer.text, None)


__all__ = [
    "CALL_SUBAGENT",
    "AskedUser",
    "Called",
    "Failed",
    "Refused",
    "Submitted",
    "TurnKind",
    "classify",
]
