"""
REC-31, REC-33: a worker that dies, hangs or fails at any instant leaves a run that goes on to the
same outcome, or pauses for a reason that a person can read; and what really happened (the file that
the tools write) is what the log says.
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.actors.crash_points import POINTS
from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

WRITE = 3
"""Of the three tools the `write` comes last: its start is the third arrival at `tool.…`."""

PROBED = [point for point in POINTS if not point.startswith(("gates.", "rework.", "act."))]
"""The points that the probe's run comes to; those of a repair loop have a test of their own."""

ARRIVALS = [
    *((point, 1) for point in PROBED),
    *((point, n) for point in ("tool.before", "tool.after") for n in (2, WRITE)),
    # Between rounds, with a called agent's task beside, and at the graph's last step.
    *((point, n) for point in ("append.before", "append.after") for n in (4, 8)),
    ("task.claimed", 2),
]
"""Where a process fails: a crash point, and at which arrival of it."""

everywhere = pytest.mark.parametrize(
    ("point", "arrival"), ARRIVALS, ids=[f"{point}:{n}" for point, n in ARRIVALS]
)


def in_a_write(point: str, arrival: int) -> bool:
    """Whether the write's start is in the log there, and its result is not."""
    return point.startswith("tool.") and arrival == WRITE


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


@everywhere
def test_a_worker_is_killed(probe: Any, fork: Any, point: str, arrival: int) -> None:
    see_it_die(probe, fork, point, arrival, "kill")


@pytest.mark.parametrize("point", PROBED)
def test_a_worker_exits(probe: Any, fork: Any, point: str) -> None:
    see_it_die(probe, fork, point, 1, "exit")


def see_it_die(probe: Any, fork: Any, point: str, arrival: int, action: str) -> None:
    """A worker dies at that instant; the next one goes on, or asks what became of a write."""
    dying = fork(f"{point}:{arrival}:{action}")
    run = probe.enqueue()
    until(lambda: not dying.alive, 30.0, dying.log)
    next_one = fork()
    state = probe.wait(run)

    if not in_a_write(point, arrival):
        assert_completed(probe, run, state)
        return
    assert lost_write(state), next_one.log()
    assert probe.done()["send"] == (point == "tool.after")
    assert_sound(probe, run)


@everywhere
def test_a_worker_hangs_beyond_its_lease_and_wakes(
    probe: Any, fork: Any, point: str, arrival: int
) -> None:
    """As a paused container does: another has gone on when it wakes, and it must not decide."""
    hanging = fork(f"{point}:{arrival}:stop")
    run = probe.enqueue()
    until(lambda: hanging.stopped, 30.0, hanging.log)
    before = probe.client.status(run).version

    fork()
    probe.until(run, lambda state: state.version > before)
    if in_a_write(point, arrival):
        assert lost_write(probe.wait(run))
    hanging.wake()

    if in_a_write(point, arrival) and point == "tool.before":
        # It has lost its lease and must not write now. That is told, and the run goes on.
        assert probe.until(run, lambda state: state.ended).status == "completed"
        assert probe.done()["send"] == 0
        (told,) = late_receipts(probe, run)
        assert (told.outcome, told.code) == ("failed", "not_run")
        assert_sound(probe, run)
        return
    # The write that had run is no longer unknown: its receipt comes late, and the run goes on.
    state = probe.until(run, lambda state: state.ended)
    assert_completed(probe, run, state)


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


@everywhere
def test_a_worker_fails_in_a_way_that_no_decision_names(
    probe: Any, fork: Any, point: str, arrival: int
) -> None:
    """The run is parked with the cause, and a resume lets it go on."""
    failing = fork(f"{point}:{arrival}:raise")
    run = probe.enqueue()
    state = probe.wait(run)

    # Before a decision, or where the task has been let go of, there is nothing to park: it goes on.
    assert state.status == "paused" or point in ("task.claimed", "append.after")
    if state.status == "paused":
        assert state.reason == "parked"
        assert "CrashPointReached" in detail_of(probe.events(run))
        assert_sound(probe, run)
        probe.client.resume(run)
        state = probe.until(run, lambda state: state.ended or lost_write(state))
    assert failing.alive, "a failure is no reason to end the process"
    if in_a_write(point, arrival):
        assert lost_write(state)
        assert_sound(probe, run)
    else:
        assert_completed(probe, run, state)


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
