"""
Is the response whole, by the wire (OUT-2, REC-11, REC-12)?
"""

from __future__ import annotations

import pytest

from mulligan.completion.check import check_output
from mulligan.completion.evidence import MAX_RESPONSE_BYTES
from mulligan.completion.verdict import (
    Completed,
    InvalidJson,
    Refused,
    TruncatedResponse,
    verdict_name,
)

WHOLE = '{"city": "Bern"}'


@pytest.mark.parametrize(
    "reason",
    [
        "length",
        "max_tokens",
        "MAX_TOKENS",
        "incomplete",
        "maxTokens",
        "FinishReason.MAX_TOKENS",
        "model_length",
        "max-output-tokens",
        "model_context_window_exceeded",
    ],
)
def test_a_cut_is_truncated_even_if_the_text_is_whole(reason: str) -> None:
    assert isinstance(check_output(WHOLE, finish_reason=reason), TruncatedResponse)


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls", "content_filter"])
def test_without_a_terminal_event_nothing_is_used(reason: str | None) -> None:
    """REC-12."""
    verdict = check_output(WHOLE, finish_reason=reason, terminal=False)

    assert isinstance(verdict, TruncatedResponse)
    assert "no_terminal_event" == verdict.issues[0].code


@pytest.mark.parametrize("tokens", [800, 801])
def test_as_many_tokens_as_were_allowed_are_a_cut(tokens: int) -> None:
    verdict = check_output(
        WHOLE, finish_reason="tool_calls", completion_tokens=tokens, max_tokens=800
    )

    assert isinstance(verdict, TruncatedResponse)


@pytest.mark.parametrize(("tokens", "cap"), [(799, 800), (800, None), (None, 800)])
def test_fewer_tokens_or_an_unknown_count_are_no_cut(tokens: int | None, cap: int | None) -> None:
    """REC-21: what was not reported is unknown."""
    assert isinstance(check_output(WHOLE, completion_tokens=tokens, max_tokens=cap), Completed)


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT"])
@pytest.mark.parametrize("text", [WHOLE, '{"city": "Ber', "I can't help with that."])
def test_a_refusal_outranks_the_text(reason: str, text: str) -> None:
    assert isinstance(check_output(text, finish_reason=reason), Refused)


def test_a_malformed_call_has_no_candidate_to_repair() -> None:
    verdict = check_output(WHOLE, finish_reason="MALFORMED_FUNCTION_CALL")

    assert isinstance(verdict, InvalidJson)
    assert "malformed_call" == verdict.issues[0].code


def test_a_response_beyond_the_size_limit_is_truncated() -> None:
    text = '{"s": "' + "x" * MAX_RESPONSE_BYTES + '"}'

    assert "size_limit" == check_output(text).issues[0].code  # type: ignore[union-attr]


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls", "end_turn", "STOP", "eos", "?"])
def test_other_reasons_leave_the_verdict_to_the_text(reason: str | None) -> None:
    assert "completed" == verdict_name(check_output(WHOLE, finish_reason=reason))
    assert "truncated" == verdict_name(check_output(WHOLE[:-1], finish_reason=reason))


@pytest.mark.parametrize("raw", [b'{"city": "Z\xc3', '{"city": "\ud83d'])
def test_a_cut_within_a_character_is_truncated(raw: str | bytes) -> None:
    assert isinstance(check_output(raw), TruncatedResponse)


@pytest.mark.parametrize(
    ("raw", "code"), [(b'{"a": "\xff"}', "not_utf8"), ('{"a": "\ud83d"}', "lone_surrogate")]
)
def test_broken_characters_are_no_value(raw: str | bytes, code: str) -> None:
    verdict = check_output(raw)

    assert isinstance(verdict, InvalidJson)
    assert code == verdict.issues[0].code
