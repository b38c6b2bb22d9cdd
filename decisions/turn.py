"""
What a model's answer is, before anything is done about it.

Evidence comes first: an answer without a terminal event, or that stopped at a limit, is cut,
however complete its text looks (REC-11, REC-12). Calls come from the provider's function-call
events only; text that looks like one is text (REC-15).
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from mulligan.completion import verdict
from mulligan.completion.evidence import from_wire
from mulligan.completion.verdict import Evidence
from mulligan.decisions.conversation import CALL_SUBAGENT, HARNESS_TOOLS, SUBMIT_OUTPUT
from mulligan.events.facts import OutputMode, RetryReason
from mulligan.providers.port import Answer, ToolCall

MAX_CALLS = 200
"""
Tool calls in one response. Providers stop at 128; each makes up to two events, which a single
append has to hold.
"""


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
    told = _by_the_wire(answer, cap_sent)
    if told is not None:
        return told
    if len(answer.calls) > MAX_CALLS:
        return Failed("repetitive_output", f"the response holds more than {MAX_CALLS} calls")
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


def evidence(answer: Answer, cap_sent: int | None) -> Evidence:
    """What the wire said about an answer."""
    return Evidence(
        finish_reason=answer.finish_reason,
        terminal=answer.terminal,
        completion_tokens=answer.usage.completion_tokens if answer.usage else None,
        max_tokens_sent=cap_sent,
    )


def _by_the_wire(answer: Answer, cap_sent: int | None) -> Failed | Refused | None:
    """What the wire alone settles; a missing finish reason is never read as `stop`."""
    if answer.repetitive:
        return Failed("repetitive_output", "the response fell into a loop and was stopped")
    if not answer.terminal:
        return Failed("eof", "the response ended without a terminal event")
    told = from_wire(_size(answer), evidence(answer, cap_sent))
    match told:
        case verdict.TruncatedResponse():
            return Failed("length", "the response stopped at its output limit")
        case verdict.InvalidJson():
            return Failed("invalid_json", "the provider says that the call was malformed")
        case verdict.Refused():
            return Refused()
        case None:
            return Refused() if answer.refused else None
        case _:
            assert_never(told)


def _size(answer: Answer) -> int:
    texts = (answer.text, *(call.arguments for call in answer.calls))
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


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
    "evidence",
]
