"""
What a response, or its absence, amounts to: an `Answer` or a `Failure`.

The wire is asked first, exceptions of the HTTP library last; a library above it is never asked.
Every cause has a fixed message: no provider text and no key can be in it (REC-22). Beside it stand
the identifiers by which the provider named its error (`error_names.py`).
"""

from __future__ import annotations

import datetime
import email.utils
import math
from collections.abc import Mapping

from msgspec.structs import replace

from mulligan.events.facts import Cause
from mulligan.providers.error_names import with_request
from mulligan.providers.port import Answer, Failure
from mulligan.providers.wire import Heard, WireError

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""Worth another attempt (REC-17), as is every 5xx; every other status from 400 on is final."""

MESSAGES = {
    "connect": "no connection to the provider",
    "connect_timeout": "the provider took no connection in time",
    "disconnected": "the provider closed the connection without a response",
    "reset": "the connection to the provider broke",
    "first_byte_timeout": "the provider sent nothing in time",
    "idle_timeout": "the response fell silent",
    "protocol": "the provider's response is no valid HTTP",
    "html": "the provider's address answered with a web page in place of a completion",
    "not_a_completion": "the provider's response is no completion",
    "garbled": "a part of the response could not be read",
    "provider_error": "the provider reported an error in place of a completion",
    "malformed_call": "the provider refused a malformed function call of the model",
    "context_exceeded": "the request is longer than the model's context",
    "quota": "the quota of the account is used up",
    "rate_limit": "the provider limits the rate of requests",
    "unauthorized": "the provider does not accept the key",
    "forbidden": "the key has no permission for this request",
    "not_found": "the provider knows no such model or address",
    "bad_request": "the provider does not accept the request",
    "redirect": "the provider's address redirects; set the address it redirects to",
    "unavailable": "the provider is unavailable",
    "conflict": "the provider could not take the request at this moment",
    "body_changed": "the request was not sent: its body or headers would have been changed",
    "not_sent": "the request was not sent: it was refused before it left",
    "cancelled": "the request was cancelled",
}
"""The message of every kind of cause."""

MALFORMED_CALL_CODES = frozenset({"tool_use_failed", "malformed_function_call"})
CONTEXT_CODES = frozenset({"context_length_exceeded", "string_above_max_length"})
FINAL_CODES = {
    "insufficient_quota": "quota",
    "authentication_error": "unauthorized",
    "invalid_api_key": "unauthorized",
    "permission_error": "forbidden",
    "permission_denied": "forbidden",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "invalid_request_error": "bad_request",
}
"""Identifiers in error objects, by which one without a status is known to be final."""


LONGEST_RETRY_AFTER_MS = 365 * 86_400_000
"""A year; a longer Retry-After says no more, and may be a number that no log or timer can hold."""


def failure(
    kind: str,
    *,
    transient: bool,
    status: int | None = None,
    retry_after_ms: int | None = None,
    named: str | None = None,
) -> Failure:
    """A failure of a kind, with its fixed message, and how the provider `named` it."""
    cause = Cause(kind=kind, message=MESSAGES[kind], status=status, named=named)
    return Failure(cause=cause, transient=transient, retry_after_ms=retry_after_ms)


def judge(status: int, headers: Mapping[str, str], heard: Heard, now: float) -> Answer | Failure:
    """
    Judge a response that came to its end. `now` is the time as seconds since the epoch, for a
    Retry-After that is a date; `headers` have lower-case names.
    """
    retry_after_ms = retry_after(headers, now)
    if status >= 300:
        error = heard.error or WireError()
        named = with_request(error.named, headers)
        return _of_status(status, replace(error, named=named), retry_after_ms)
    if heard.repetitive:
        return answer(heard)
    if heard.error is not None:
        return _of_error(heard.error, retry_after_ms)
    unfit = _unfit(headers.get("content-type", ""), heard)
    if unfit is not None:
        return failure(unfit, transient=True, status=status)
    return answer(heard)


def answer(heard: Heard) -> Answer:
    """What was heard, as an answer; whether it is any good is not asked here."""
    return Answer(
        finish_reason=heard.finish_reason,
        terminal=heard.finish_reason is not None,
        text=heard.text,
        calls=heard.calls,
        usage=heard.usage,
        served_model=heard.served_model,
        refused=heard.refused,
        repetitive=heard.repetitive,
    )


def retry_after(headers: Mapping[str, str], now: float) -> int | None:
    """
    Milliseconds to wait, a year at most: `retry-after-ms`, or Retry-After as seconds or as a date.
    """
    for name, unit_ms in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = headers.get(name)
        if text is None:
            continue
        seconds = _number(text)
        if seconds is not None:
            return math.ceil(min(seconds * unit_ms, LONGEST_RETRY_AFTER_MS))
        moment = _moment(text)
        if moment is not None:
            return math.ceil(min(max(0, (moment - now) * 1000), LONGEST_RETRY_AFTER_MS))
    return None


def _unfit(content_type: str, heard: Heard) -> str | None:
    """Why a response with status 200 is none of a model at all."""
    if "html" in content_type.lower():
        return "html"
    if heard.broken:
        # A body that is not to be read may be one cut off: that is an end without a terminal event.
        return "garbled" if heard.recognised or heard.finish_reason else _unread(content_type)
    nothing = not heard.received_bytes or heard.done
    return None if heard.recognised or nothing or _is_stream(content_type) else "not_a_completion"


def _unread(content_type: str) -> str | None:
    return None if "json" in content_type.lower() else "not_a_completion"


def _is_stream(content_type: str) -> bool:
    return "event-stream" in content_type.lower()


def _of_status(status: int, error: WireError, retry_after_ms: int | None) -> Failure:
    if status == 429:
        kind = "quota" if error.quota else "rate_limit"
        return failure(
            kind,
            transient=not error.quota,
            status=status,
            retry_after_ms=retry_after_ms,
            named=error.named,
        )
    if status in TRANSIENT_STATUSES or status >= 500:
        kind = "conflict" if status < 500 else "unavailable"
        return failure(
            kind,
            transient=True,
            status=status,
            retry_after_ms=retry_after_ms,
            named=error.named,
        )
    kinds = {401: "unauthorized", 402: "quota", 403: "forbidden", 404: "not_found"}
    kind = "redirect" if status < 400 else _named(error) or kinds.get(status) or "bad_request"
    return failure(kind, transient=False, status=status, named=error.named)


def _of_error(error: WireError, retry_after_ms: int | None) -> Failure:
    """Judge an error object inside a response with status 200."""
    kind = _named(error)
    if kind is None and error.status is not None:
        return _of_status(error.status, error, retry_after_ms)
    kind = kind or _coded(error)
    if kind is not None:
        return failure(kind, transient=False, status=error.status, named=error.named)
    # Nothing says that it would fail again: the model had begun, and something behind it broke.
    return failure(
        "provider_error", transient=True, retry_after_ms=retry_after_ms, named=error.named
    )


def _named(error: WireError) -> str | None:
    """The kind that an error's identifiers name whatever its status says."""
    codes = set(error.codes)
    if codes & MALFORMED_CALL_CODES:
        return "malformed_call"
    if codes & CONTEXT_CODES:
        return "context_exceeded"
    return "quota" if error.quota else None


def _coded(error: WireError) -> str | None:
    return next((FINAL_CODES[code] for code in error.codes if code in FINAL_CODES), None)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _moment(text: str) -> float | None:
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
