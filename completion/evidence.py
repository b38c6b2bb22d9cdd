"""
Is the response whole, by what the wire said (OUT-2)? The text itself is asked later.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mulligan.completion.verdict import (
    Evidence,
    InvalidJson,
    Issue,
    Refused,
    TruncatedResponse,
)

MAX_RESPONSE_BYTES = 1024 * 1024
"""What is longer counts as cut off: no reader of responses keeps more than this."""

# Finish reasons as providers spell them, in lower case with underscores: OpenAI (chat and
# responses), Anthropic, Gemini, Mistral, Cohere, Bedrock and the common local servers.
_CUT = frozenset(
    [
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_length",
        "max_new_tokens",
        "token_limit",
        "output_limit",
        "incomplete",
        "model_length",
        "error_limit",
        "context_length",
        "context_length_exceeded",
        "model_context_window_exceeded",
        "pause_turn",
        "error",
        "aborted",
        "abort",
        "cancelled",
        "canceled",
        "interrupted",
        "timeout",
        "network_error",
        "failed",
    ]
)
_REFUSED = frozenset(
    [
        "refusal",
        "refused",
        "content_filter",
        "content_filtered",
        "safety",
        "blocklist",
        "prohibited_content",
        "spii",
        "recitation",
        "language",
        "image_safety",
        "guardrail_intervened",
        "sensitive",
        "moderation",
        "blocked",
        "error_toxic",
    ]
)
_MALFORMED = frozenset(
    [
        "malformed_function_call",
        "malformed_tool_call",
        "malformed_response",
        "malformed_model_output",
        "malformed_tool_use",
        "invalid_tool_call",
        "unexpected_tool_call",
        "tool_use_failed",
        "too_many_tool_calls",
    ]
)
_STOPPED = frozenset(
    ["stop", "end_turn", "eos", "eos_token", "complete", "completed", "stop_sequence"]
)


def from_wire(
    size_bytes: int, evidence: Evidence
) -> TruncatedResponse | Refused | InvalidJson | None:
    """The verdict that the wire alone gives, or None if the text has to be asked."""
    reason = _spelled(evidence.finish_reason)
    if not evidence.terminal:
        return _cut("no_terminal_event", "the response ended without a terminal event")
    if reason in _CUT:
        return _cut("finish_reason", "the provider says that the output was cut off")
    if _at_cap(evidence):
        return _cut("output_cap", "as many tokens came as the request allowed")
    if size_bytes > MAX_RESPONSE_BYTES:
        return _cut("size_limit", f"the response exceeds {MAX_RESPONSE_BYTES} bytes")
    if reason in _REFUSED:
        return Refused(issues=(Issue("refused", message="refused by the model or a filter"),))
    if reason in _MALFORMED:
        message = "the provider says that the call was malformed"
        return InvalidJson(issues=(Issue("malformed_call", message=message),))
    return None


def stopped_by_itself(evidence: Evidence) -> bool:
    """Whether the provider says, in so many words, that the model had finished."""
    return evidence.terminal and _spelled(evidence.finish_reason) in _STOPPED


def _at_cap(evidence: Evidence) -> bool:
    tokens, cap = evidence.completion_tokens, evidence.max_tokens_sent
    return tokens is not None and cap is not None and tokens >= cap > 0


def _cut(code: str, message: str) -> TruncatedResponse:
    return TruncatedResponse(issues=(Issue(code, message=message),))


@lru_cache(maxsize=256)
def _spelled(reason: str | None) -> str:
    """One spelling for `MAX_TOKENS`, `max-tokens`, `maxTokens` and `FinishReason.MAX_TOKENS`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", (reason or "").rpartition(".")[2].strip())
    return re.sub(r"[^a-z]+", "_", words.lower()).strip("_")
