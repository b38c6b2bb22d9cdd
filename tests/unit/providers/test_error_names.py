"""How a provider named its error: identifiers, and nothing that may be more (REC-22, OVR-10)."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.providers.error_names import named_by, with_request


def test_identifiers_are_told_once_each() -> None:
    error = {
        "message": "the prompt said canary",
        "code": "unsupported_value",
        "type": "invalid_request_error",
        "param": "messages[1].content",
    }
    told = "code unsupported_value, type invalid_request_error, param messages[1].content"

    assert told == named_by(error)
    assert "code quota" == named_by({"code": "quota", "type": "quota"})
    assert "type ContextWindowExceededError" == named_by({"type": "ContextWindowExceededError"})


@pytest.mark.parametrize(
    "value",
    [
        "it said: canary",
        "sk-test-0000",
        "sk-or-v1-0000",
        "AIzaSyExample",
        "gsk_a1b2",
        "f3a9" * 8,
        "x" * 65,
        "",
        400,
        None,
        ["code"],
        {"code": "x"},
    ],
)
def test_what_may_be_more_is_not(value: Any) -> None:
    assert named_by({"code": value, "type": value, "param": value}) is None


def test_the_providers_own_id_of_a_request_is_told() -> None:
    assert "code x, request req_8f14" == with_request("code x", {"x-request-id": "req_8f14"})
    assert "request r-1" == with_request(None, {"request-id": "r-1"})
    assert with_request(None, {"x-request-id": "two words"}) is None
