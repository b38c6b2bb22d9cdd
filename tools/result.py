"""What came of a tool's call, as the log and the model see it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from mulligan.errors import ToolError
from mulligan.tools.input_needed import InputNeeded

__all__ = ["ToolResult", "failure", "invalid_arguments", "success"]

MAX_MESSAGE = 500
"""Characters of an error's message that go into the log and to the model."""
MAX_ISSUES = 10

_strict = json.JSONEncoder(allow_nan=False)


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A JSON value, or with `is_error` a code and a message of at most 500 characters. With `unknown`
    a `write` may have taken effect all the same. With `questions` a function asks people.
    """

    value: Any = None
    is_error: bool = False
    code: str | None = None
    message: str | None = None
    unknown: bool = False
    questions: tuple[dict[str, Any], ...] = ()


def success(value: Any) -> ToolResult:
    """
    The result for what a tool returned; an error if that is not JSON, of a `write` one of unknown
    outcome: it has run to its end, and must not be tried again.
    """
    try:
        return ToolResult(value=_plain(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        told = f"the tool's result is not JSON: {error}"
        return _error("unserialisable_result", told, unknown=True)


def failure(error: BaseException) -> ToolResult:
    """The result for what a tool raised; a ToolError brings its own code."""
    if isinstance(error, ToolError):
        return _error(error.code, str(error), unknown=error.unknown)
    if isinstance(error, InputNeeded):
        asked = _error("input_needed", f"{error}; only a function node can ask")
        return msgspec.structs.replace(asked, questions=error.questions)
    code = "timeout" if isinstance(error, TimeoutError) else "tool_exception"
    return _error(code, f"{type(error).__name__}: {error}")


def invalid_arguments(error: ValidationError) -> ToolResult:
    """The result for arguments that do not fit: where and why, never the values."""
    issues = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{'.'.join(map(str, i['loc'])) or 'arguments'}: {_rule(i)}" for i in issues]
    more = f"; and {len(shown) - MAX_ISSUES} more" if len(shown) > MAX_ISSUES else ""
    return _error("invalid_arguments", "; ".join(shown[:MAX_ISSUES]) + more)


def _rule(issue: Any) -> str:
    # These texts may quote the value; pydantic's others are fixed.
    own = issue["type"] in ("value_error", "assertion_error", "union_tag_invalid")
    return "not a value that the tool takes" if own else str(issue["msg"])


def _error(code: str, message: str, *, unknown: bool = False) -> ToolResult:
    return ToolResult(is_error=True, code=code, message=_bounded(message), unknown=unknown)


def _bounded(message: str) -> str:
    text = message.encode(errors="replace").decode()
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain_model)
    _strict.encode(plain)  # refuses NaN and Infinity, which msgspec makes null
    msgspec.json.encode(plain)  # refuses halves of surrogate pairs
    return plain


def _plain_model(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} can't be written as JSON")
