"""A run's row in lists: what a person says lets it go on."""

from __future__ import annotations

import pytest

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.payload import Payload
from mulligan.projections.rows import SUMMARIES
from mulligan.projections.summary import RunSummary

SAID: list[facts.Fact] = [
    facts.InputProvided(request_id="a.1.1", answer=Payload.of("x"), by="ann"),
    facts.ToolApproved(call_id="a.1.1", by="ann"),
    facts.ToolDenied(call_id="a.1.1", reason="", by="ann"),
    facts.EffectReconciled(call_id="a.1.1", outcome="retry", by="ann"),
    facts.DecisionMade(request_id="a", decision="abort", by="ann"),
]


@pytest.mark.parametrize("said", SAID, ids=lambda fact: type(fact).__name__)
def test_a_run_that_was_paused_is_running_once_somebody_has_spoken(said: facts.Fact) -> None:
    row = RunSummary(run="run")
    paused = facts.RunPaused(reason="awaiting_input", detail="Which tea?")
    for version, fact in enumerate((facts.RunStarted(), paused, said), start=1):
        event = Envelope(id="x", run="run", version=version, time_ms=version, data=fact)
        SUMMARIES.take_on(row, [event])

    assert (row.status, row.reason, row.detail) == ("running", None, "")
