"""
RPR-13: killed at any instant of a round, a repair loop goes on with the same round; no agent is
called twice for the same job, no edit is applied twice, no round is spent twice; and the log
that is written afterwards is the one that an undisturbed run writes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mulligan.events import facts
from mulligan.projections import workspace
from mulligan.projections.repair_log import RepairLog, fold
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.testing.misread_invoice import INPUT, RECORD, ROUNDS, script
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

EVERYDAY = [("gates.after", 1), ("rework.before", 3), ("append.after", 8), ("model.after", 2)]
OTHERS = [
    *(("gates.before", 1), ("rework.before", 1), ("task.claimed", 4), ("append.before", 12)),
    *(("rework.after", n) for n in (1, 3, 4)),
    *(("append.after", n) for n in (6, 10)),
]
"""Where the worker is killed: before any round, and in each step of the three."""

KILLED_AT = [
    *(pytest.param(*at, id=":".join(map(str, at))) for at in EVERYDAY),
    *(pytest.param(*at, id=":".join(map(str, at)), marks=pytest.mark.exhaustive) for at in OTHERS),
]


@pytest.mark.parametrize(("point", "arrival"), KILLED_AT)
def test_rpr_13_a_worker_is_killed_in_a_round(
    probe: Any, fork: Any, point: str, arrival: int
) -> None:
    probe.model.play(script())
    dying = fork(f"{point}:{arrival}:kill")
    run = probe.client.enqueue("records", INPUT, model="scripted/any")
    until(lambda: not dying.alive or probe.client.status(run).ended, 30.0, dying.log)
    assert not dying.alive, f"{point}:{arrival} was never reached"
    next_one = fork()

    state = probe.wait(run)

    assert state.status == "completed", next_one.log()
    assert_as_undisturbed(probe, run, state)


def assert_as_undisturbed(probe: Any, run: str, state: RunState) -> None:
    log = log_of(probe, run)
    assert [(one.iteration, one.level, one.verdict) for one in log.iterations] == [
        (1, 1, "improved"),
        (2, 1, "not_improved"),
        (3, 2, "passed"),
    ]
    done = [[one.type for one in each.actions] for each in log.iterations]
    assert done == [["field", "field"], ["field"], ["record"]]
    events = probe.events(run)
    called = [e.data.invocation for e in events if isinstance(e.data, facts.SubagentCalled)]
    assert called == list(ROUNDS)
    ended = [e.data.invocation for e in events if isinstance(e.data, facts.SubagentCompleted)]
    assert ended == called
    assert probe.client.value(run, state.output)["draft"]["documents"][0]["records"] == [RECORD]
    assert problems_of(probe.client.store, run, events) == []


def log_of(probe: Any, run: str) -> RepairLog:
    (log,) = fold(run, probe.events(run), partial(probe.client.value, run)).loops
    return log


def test_rpr_15_the_workspace_is_the_same_bytes_whoever_writes_it(probe: Any, fork: Any) -> None:
    probe.model.play(script())
    fork()
    run = probe.client.enqueue("records", INPUT, model="scripted/any")
    probe.wait(run)

    one, other = (
        workspace.files(run, probe.events(run), partial(probe.client.value, run)) for _ in range(2)
    )

    assert one == other
    assert {"repair/draft.r00.json", "repair/draft.r03.json", "repair/repair-log.json"} <= set(one)
