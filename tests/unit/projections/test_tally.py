"""What went wrong in a run, as numbers."""

from __future__ import annotations

from mulligan.events import facts
from mulligan.events.payload import Payload
from mulligan.projections.tally import MOST_NAMES, counted, one_more, unknown_after


def test_a_fact_counts_by_kind_and_reason() -> None:
    assert counted(facts.NodeFailed(code="tool_failed", message="said")) == "node:tool_failed"
    assert counted(facts.ModelInterrupted(request_id="a#1", invocation="a")) == "model:interrupted"
    paused = facts.NodePaused(reason="exhausted", invocation="a")
    assert counted(paused) == "pause:exhausted"
    assert counted(facts.RunStarted()) is None


def test_a_code_that_is_no_plain_word_is_not_shown() -> None:
    """No text of a tool becomes the name of a metric."""
    odd = facts.ToolFailed(call_id="a.1.1", code="Secret: 42", message="")
    assert counted(odd) == "tool:other"


def test_names_are_bounded() -> None:
    counts: dict[str, int] = {}
    for number in range(MOST_NAMES + 20):
        counts = one_more(counts, f"tool:code{number}")
    assert counts["tool:other"] == 20
    assert len(counts) == MOST_NAMES + 1
    assert one_more(counts, "tool:code0")["tool:code0"] == 2


def test_an_effect_is_unknown_until_somebody_knows() -> None:
    lost = facts.ToolOutcomeUnknown(call_id="a.1.1", evidence="")
    unknown = unknown_after(unknown_after((), lost), lost)
    assert unknown == ("a.1.1",)
    other = facts.ToolSucceeded(call_id="a.2.1", result=Payload.of(1))
    assert unknown_after(unknown, other) == ("a.1.1",)
    known = facts.ToolSucceeded(call_id="a.1.1", result=Payload.of(1))
    assert unknown_after(unknown, known) == ()
