"""
REC-31: a write that a lost worker had begun, whose tool can tell whether it took effect: the tool
is asked, the run goes on by itself, and the write is never done twice.
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.events import facts
from mulligan.projections.verify import problems_of
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    ("point", "outcome", "done"), [("tool.before", "failed", 0), ("tool.after", "succeeded", 1)]
)
def test_rec31_a_tool_that_can_tell_is_asked_what_became_of_its_write(
    probe: Any, fork: Any, point: str, outcome: str, done: int
) -> None:
    mail = {"name": "mail", "arguments": {}}
    probe.model.play(
        {"turns": [probe.turn(0, tool_calls=[mail]), probe.turn(1, json={"found": 1})]}
    )
    dying = fork(f"{point}:kill")
    run = probe.enqueue(flow="mail")
    until(lambda: not dying.alive, 30.0, dying.log)
    fork()

    state = probe.wait(run)

    assert state.status == "completed", probe.told()
    events = probe.events(run)
    (said,) = [one.data for one in events if isinstance(one.data, facts.EffectReconciled)]
    assert (said.outcome, said.by) == (outcome, "verify")
    assert probe.done()["mail"] == done
    assert problems_of(probe.client.store, run, events) == []
