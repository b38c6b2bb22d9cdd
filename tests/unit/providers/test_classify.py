"""
Which failures another attempt may mend (REC-17), and how long to wait before it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.providers.classify import (
    FINAL_CODES,
    LONGEST_RETRY_AFTER_MS,
    MESSAGES,
    judge,
    retry_after,
)
from mulligan.providers.port import Answer, Failure
from mulligan.providers.wire import WireReader

NOON = 1_700_000_000.0


def judged(status: int, body: Any, content_type: str = "application/json") -> Answer | Failure:
    reader = WireReader(content_type)
    reader.feed(body if isinstance(body, bytes) else json.dumps(body).encode())
    return judge(status, {"content-type": content_type}, reader.end(), NOON)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_transient(status: int) -> None:
    """REC-17."""
    result = judged(status, {"error": {"message": "slow down"}})

    assert isinstance(result, Failure)
    assert (True, status) == (result.transient, result.cause.status)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 413, 422])
def test_final(status: int) -> None:
    """REC-17."""
    result = judged(status, b"<html>", "text/html")

    assert isinstance(result, Failure)
    assert (False, status) == (result.transient, result.cause.status)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "insufficient_quota", "message": "x"},
        {"type": "insufficient_quota"},
        {"message": "You exceeded your current quota, please check your plan"},
        {"message": "Your credit balance is too low"},
        "You exceeded your current quota",
    ],
)
def test_a_429_that_says_the_quota_is_used_up_is_final(error: Any) -> None:
    """REC-17."""
    result = judged(429, {"error": error})

    assert isinstance(result, Failure)
    assert ("quota", False) == (result.cause.kind, result.transient)


@pytest.mark.parametrize("code", sorted(FINAL_CODES))
def test_an_error_in_a_200_is_final_where_its_code_says_so(code: str) -> None:
    result = judged(200, {"error": {"code": code, "message": "x"}})

    assert isinstance(result, Failure)
    assert (FINAL_CODES[code], False) == (result.cause.kind, result.transient)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 503}, 503),
        ({"status": "502", "code": "invalid_request_error"}, 502),
        ({"code": "rate_limit_exceeded", "status_code": 429}, 429),
        ({"message": "broke"}, None),
        ("broke", None),
    ],
)
def test_an_error_in_a_200_is_transient_where_nothing_speaks_against(
    error: Any, status: int | None
) -> None:
    result = judged(200, {"choices": [], "error": error})

    assert isinstance(result, Failure)
    assert (True, status) == (result.transient, result.cause.status)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("context_length_exceeded", "context_exceeded"), ("tool_use_failed", "malformed_call")],
)
@pytest.mark.parametrize("status", [200, 400])
def test_what_a_code_names_is_told_apart(code: str, kind: str, status: int) -> None:
    result = judged(status, {"error": {"code": code, "status_code": 400}})

    assert isinstance(result, Failure)
    assert (kind, False) == (result.cause.kind, result.transient)


@pytest.mark.parametrize("body", [{}, {"detail": "x"}, b"[]", b"null"])
def test_json_that_is_no_completion_is_no_answer(body: Any) -> None:
    result = judged(200, body)

    assert not (isinstance(result, Answer) and result.terminal)


def test_a_json_body_cut_off_is_an_end_without_terminal_event() -> None:
    """REC-12."""
    result = judged(200, b'{"choices": [{"message": {"content": "x')

    assert isinstance(result, Answer)
    assert (False, "") == (result.terminal, result.text)


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3_000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e300"}, LONGEST_RETRY_AFTER_MS),
        ({"retry-after": "1e308"}, LONGEST_RETRY_AFTER_MS),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST_RETRY_AFTER_MS),
        ({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({"retry-after-ms": "120", "retry-after": "1"}, 120),
    ],
)
def test_retry_after(headers: dict[str, str], ms: int | None) -> None:
    """REC-17: seconds, or a date."""
    assert ms == retry_after(headers, NOON)


def test_messages_are_fixed_sentences() -> None:
    """REC-22."""
    assert not [m for m in MESSAGES.values() if "{" in m or "%" in m]
