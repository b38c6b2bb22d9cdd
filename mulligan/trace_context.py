"""
Where a run was asked for, as W3C Trace Context writes it (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import re
import sys

from mulligan.errors import InvalidInput

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def check_traceparent(text: str) -> str:
    """
    The text, if it is a `traceparent` of version 00.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(text, str) or not _TRACEPARENT.fullmatch(text):
        raise InvalidInput(
            "traceparent must be 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, in small "
            "letters"
        )
    return text


def received_traceparent(text: str | None) -> str | None:
    """That of a request's header; what is none is ignored, as the recommendation says."""
    return text if text is not None and _TRACEPARENT.fullmatch(text) else None


def current_traceparent() -> str | None:
    """The caller's own span, if its program has OpenTelemetry and is within one."""
    trace = sys.modules.get("opentelemetry.trace")  # who has not loaded it is in no span
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
