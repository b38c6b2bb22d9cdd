"""
REC-31, REC-33: a worker that dies, hangs or fails at any instant leaves a run that goes on to the
same outcome, or pauses for a reason that a person can read; and what really happened (the file that
the tools write) is what the log says.
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

WRITE = 3
"""Of the three tools the `write` comes last: its start is the third arrival at `tool.…`."""


def lost_write(state: RunState) -> bool:
    return state.status == "paused" and state.reason == "reconciliation_required"


def assert_sound(probe: Any, run: str) -> None:
    """What must be true however the run has come here."""
    history = probe.events(run)
    done = probe.done()
    starts = [e.data.call_id for e in history if isinstance(e.data, facts.ToolStarted)]
    for call_id, tool in (("gather.1.1", "look"), ("gather.1.2", "put"), ("gather.2.1", "send")):
        assert done[tool] <= starts.count(call_id), f"{tool} ran more often than the log says"
    assert done["send"] <= 1, "a write ran twice"
    keys = {line for line in probe.record.read_text().splitlines() if line.startswith("put ")}
    assert len(keys) <= 1, "an idempotent tool was called again under another key"
    assert len(probe.model.requests) <= probe.types(run).count("ModelRequested")
    assert problems_of(probe.client.store, run, history) == []


def assert_completed(probe: Any, run: str, state: RunState) -> None:
    assert state.status == "completed", probe.told()
    assert probe.client.value(run, state.output) == {"name": "probe", "found": 1}
    assert all(probe.done()[name] >= 1 for name in ("look", "put", "send", "total"))
    assert_sound(probe, run)


def test_a_write_whose_worker_was_paused_before_it_began_is_told_as_not_run(
    probe: Any, fork: Any
) -> None:
    """As a paused container is: it has lost its lease when it wakes, and must not write now."""
    hanging = fork(f"tool.before:{WRITE}:stop")
    run = probe.enqueue()
    until(lambda: hanging.stopped, 30.0, hanging.log)
    fork()
    assert lost_write(probe.wait(run))

    hanging.wake()

    assert probe.until(run, lambda state: state.ended).status == "completed"
    assert probe.done()["send"] == 0
    (told,) = late_receipts(probe, run)
    assert (told.outcome, told.code) == ("failed", "not_run")
    assert_sound(probe, run)


def test_who_wakes_late_does_not_fail_what_was_taken_up_again(probe: Any, fork: Any) -> None:
    """
    An operator lets a lost write be tried again; the first worker, which never began it, wakes
    while the second is at it, for longer than its lease: the first may find the call unknown a
    second time before it hands in that its own execution did not run.
    """
    first = fork(f"tool.before:{WRITE}:stop")
    run = probe.enqueue()
    until(lambda: first.stopped, 30.0, first.log)
    second = fork("tool.after:1:stop")
    assert lost_write(probe.wait(run))
    probe.client.reconcile(run, "gather.2.1", "retry")
    until(lambda: second.stopped, 30.0, second.log)

    first.wake()
    until(lambda: late_receipts(probe, run), 30.0, first.log)
    second.wake()

    assert_completed(probe, run, probe.until(run, lambda state: state.ended))
    assert probe.done()["send"] == 1
    assert (1, "failed", "not_run") in [
        (told.execution, told.outcome, told.code) for told in late_receipts(probe, run)
    ]


def late_receipts(probe: Any, run: str) -> list[facts.ToolReceiptArrived]:
    """What workers said of calls whose leases others had taken."""
    events = (event.data for event in probe.events(run))
    return [fact for fact in events if isinstance(fact, facts.ToolReceiptArrived)]


def test_a_failure_that_no_decision_names_parks_the_run_with_its_cause(
    probe: Any, fork: Any
) -> None:
    failing = fork("model.after:1:raise")
    run = probe.enqueue()
    state = probe.wait(run)

    assert state.reason == "parked"
    assert "CrashPointReached" in detail_of(probe.events(run))
    assert failing.alive, "a failure is no reason to end the process"
    probe.client.resume(run)
    assert_completed(probe, run, probe.until(run, lambda state: state.ended))


def detail_of(history: list[Envelope]) -> str:
    """Why a run was parked."""
    pauses = (facts.NodePaused, facts.RunPaused)
    return "; ".join(event.data.detail for event in history if isinstance(event.data, pauses))


@pytest.mark.parametrize("crash_at", ["model.after:2:kill", "tool.after:2:exit"])
def test_the_supervisor_replaces_what_died(probe: Any, crash_at: str) -> None:
    """The same, with nobody there but `mulligan worker` and the command line."""
    worker = probe.worker(crash_at)
    run = probe.enqueue()

    assert_completed(probe, run, probe.wait(run))
    assert len(worker.logged("worker_died")) == 1
    verified = probe.cli("verify", run)
    assert verified.returncode == 0, verified.stdout
    assert worker.terminate() == 0
