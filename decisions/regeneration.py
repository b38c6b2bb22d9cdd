"""
What a model is told when its last response was of no use (REC-11 to REC-14).

The next request goes on from the last complete tool boundary, with this note at its end. It says
why, names the places where an output broke its rules, and asks for one complete value. It is made
from what the log keeps of the failure, which is never what the model wrote.
"""

from __future__ import annotations

from typing import assert_never

from mulligan.events.facts import OutputIssue, OutputMode
from mulligan.projections.state import Trouble
from mulligan.providers.port import Message

_OPENING = "Your last response was not used, and nothing of it was kept or run"
_OPENING_KEPT = "Your last response did not help"


def note(trouble: Trouble, mode: OutputMode) -> Message:
    """The message that a request ends with after `trouble`."""
    reason = f": {trouble.message}" if trouble.message else ""
    if trouble.kept:
        content = f"{_OPENING_KEPT}{reason}.\n{_go_on(mode)}"
        return Message(role="user", content=content)
    parts = [f"{_OPENING}{reason}.", _what_to_do(trouble, mode)]
    if trouble.issues:
        parts.insert(1, "\n".join(_line(issue) for issue in trouble.issues))
    return Message(role="user", content="\n".join(parts))


def _line(issue: OutputIssue) -> str:
    rule = issue.schema_path or issue.code
    return f"- {issue.path or '/'}: {issue.message} ({rule})"


def _what_to_do(trouble: Trouble, mode: OutputMode) -> str:
    match trouble.reason:
        case "length":
            return (
                "Do not go on from where it stopped. Begin again and give one complete value that "
                f"fits the limit, as briefly as the task allows. {_handing_in(mode)}"
            )
        case "eof" | "transport":
            return (
                "Do not go on from where it stopped. Begin again and give one complete value. "
                f"{_handing_in(mode)}"
            )
        case "repetitive_output":
            return (
                "Begin again, write nothing over and over, and give one complete value. "
                f"{_handing_in(mode)}"
            )
        case "invalid_json" | "wrong_envelope" | "schema_violation":
            return f"Give one complete value that is right in all of this. {_handing_in(mode)}"
        case "mixed_turn" | "empty_turn":
            return _go_on(mode)
        case _:
            assert_never(trouble.reason)


def _go_on(mode: OutputMode) -> str:
    return f"Go on: either call tools, or finish. {_handing_in(mode)}"


def _handing_in(mode: OutputMode) -> str:
    match mode:
        case "tool":
            return "To finish, call submit_output once, alone, with the whole output."
        case "native" | "prompt":
            return "To finish, answer with the whole output as one JSON value and nothing else."
        case _:
            assert_never(mode)
