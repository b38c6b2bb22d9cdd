"""Where a run is asked for: the caller's own span, or one that is named."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider

from mulligan.errors import InvalidInput
from mulligan.trace_context import check_traceparent, current_traceparent

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_span_that_the_caller_is_within() -> None:
    tracer = TracerProvider().get_tracer("shop")

    assert current_traceparent() is None
    with tracer.start_as_current_span("POST /orders") as span:
        told = current_traceparent()
    context = span.get_span_context()
    assert told is not None
    assert told[:-3] == f"00-{context.trace_id:032x}-{context.span_id:016x}"
    assert check_traceparent(told) == told


@pytest.mark.parametrize(
    "text",
    [
        *("", "00", GIVEN.upper(), f"{GIVEN}-x", f" {GIVEN}", f"{GIVEN}\n", f"01{GIVEN[2:]}"),
        GIVEN.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        GIVEN.replace("b7ad6b7169203331", "0" * 16),
        None,
        5,
    ],
)
def test_what_is_no_trace_context_is_refused(text: object) -> None:
    with pytest.raises(InvalidInput, match="traceparent must be 00-"):
        check_traceparent(text)  # type: ignore[arg-type]
