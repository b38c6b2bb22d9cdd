"""What people do to runs: resume, cancel, reconcile; by program and by command, on real workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.events import facts
from mulligan.projections.history import problems
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

CANCELLED_WITHIN_MS = 1_000


def times(probe: Any, run: str, kind: type[facts.Fact]) -> list[int]:
    """When the events of a kind were appended, by the server's clock."""
    return [event.time_ms for event in probe.events(run) if isinstance(event.data, kind)]


@pytest.mark.parametrize("by", ["command", "client"])
def test_an_exhausted_run_is_resumed_with_a_fresh_allowance(probe: Any, by: str) -> None:
    """REC-8, REC-9: what was done stays done; attempts go on counting."""
    good = probe.script()
    probe.model.play({"turns": [good[0], probe.turn(1, text="I am not sure."), *good[2:]]})
    worker = probe.worker()
    run = probe.enqueue()
    paused = probe.wait(run)
    assert (paused.status, paused.reason) == ("paused", "exhausted"), worker.log()
    attempts = paused.nodes["gather"].attempt, paused.invocations["gather"].attempt
    probe.model.play({"turns": good})

    if by == "client":
        probe.client.resume(run)
    else:
        assert probe.cli("resume", run).returncode == 0

    state = probe.until(run, lambda state: state.ended)
    assert state.status == "completed"
    recovery = state.invocations["gather"].recovery
    assert (recovery.number, recovery.resumed_from, recovery.used) == (2, 1, 0)
    assert state.invocations["gather"].attempt >= attempts[1]
    assert probe.done() == {"look": 1, "put": 1, "send": 1, "total": 1}
    assert problems(probe.events(run)) == []


def test_a_run_that_has_ended_can_not_be_resumed(probe: Any) -> None:
    probe.worker()
    run = probe.enqueue()
    assert probe.wait(run).status == "completed"

    refused = probe.cli("resume", run)

    assert refused.returncode == 2
    assert f"run '{run}' is completed" in refused.stderr


@pytest.mark.parametrize("by", ["command", "client"])
def test_cancelling_hangs_up_on_the_model(probe: Any, by: str) -> None:
    """REC-27: within a second; nothing new is asked; it wins over every retry."""
    stall = {"kind": "stall", "at_byte": 0}
    probe.model.play({"turns": [probe.turn(0, json={}, fault=stall)]})
    worker = probe.worker()
    run = probe.enqueue()
    until(lambda: probe.model.requests, 30.0, worker.log)

    if by == "client":
        assert probe.client.cancel(run, "enough")
        assert not probe.client.cancel(run), "asked before, or ended"
    else:
        assert probe.cli("cancel", run, "--reason", "enough").returncode == 0

    state = probe.until(run, lambda state: state.ended)
    assert state.status == "cancelled"
    (asked,), (ended,) = (
        times(probe, run, kind) for kind in (facts.RunCancelRequested, facts.RunCancelled)
    )
    assert ended - asked <= CANCELLED_WITHIN_MS
    until(lambda: probe.model.requests[0].outcome == "disconnected", 5.0)
    assert len(probe.model.requests) == 1
    assert state.nodes["gather"].status == state.nodes["total"].status == "cancelled"
    assert problems(probe.events(run)) == []


@pytest.mark.parametrize(
    ("outcome", "result", "sends"),
    [("succeeded", '"sent by hand"', 1), ("failed", None, 1), ("retry", None, 2)],
)
def test_a_killed_write_waits_for_somebody_to_say_what_became_of_it(
    probe: Any, outcome: str, result: str | None, sends: int
) -> None:
    """REC-31: it is never repeated on its own; a person may have it tried again."""
    probe.worker("tool.after:3:kill")
    run = probe.enqueue()
    paused = probe.wait(run)
    assert (paused.status, paused.reason) == ("paused", "reconciliation_required")
    assert probe.cli("status", run).stdout.count("reconciliation_required") >= 1
    assert probe.done()["send"] == 1

    told = ["--result", result] if result else []
    said = probe.cli("reconcile", run, "gather.2.1", outcome, *told, "--by", "ann")

    assert said.returncode == 0, said.stderr
    state = probe.until(run, lambda state: state.ended)
    assert state.status == "completed"
    assert probe.done()["send"] == sends
    seen = next(
        message["content"]
        for message in probe.model.requests[-1].body["messages"][::-1]
        if message["role"] == "tool" and message["tool_call_id"] in _sends(probe)
    )
    assert {"succeeded": "sent by hand", "retry": "sent"}.get(outcome, seen) == seen
    assert (outcome == "failed") == ("is_error" in seen)
    again = probe.cli("reconcile", run, "gather.2.1", "failed")
    assert again.returncode == 2
    assert "nothing to reconcile" in again.stderr
    assert problems(probe.events(run)) == []


def _sends(probe: Any) -> set[str]:
    """The ids under which the model knows its calls of `send`."""
    return {
        call["id"]
        for message in probe.model.requests[-1].body["messages"]
        for call in message.get("tool_calls", ())
        if call["function"]["name"] == "send"
    }


def test_a_killed_write_function_waits_too_and_is_reconciled_by_its_node(probe: Any) -> None:
    probe.worker("function.after:1:kill")
    run = probe.enqueue(flow="publish")
    paused = probe.wait(run)
    assert (paused.status, paused.reason) == ("paused", "reconciliation_required")

    said = probe.cli("reconcile", run, "publish", "succeeded", "--result", '"by hand"')

    assert said.returncode == 0, said.stderr
    state = probe.until(run, lambda state: state.ended)
    assert (state.status, state.output.value) == ("completed", "by hand")
    assert probe.done() == {"publish": 1}
    assert probe.cli("verify", run).returncode == 0


def test_fifty_runs_at_once_each_do_everything_once(probe: Any) -> None:
    """By two worker processes."""
    worker = probe.worker(processes=2, threads=16, lease_ms=5_000, lease_margin_ms=500)
    runs = [probe.enqueue(f"load-{number}") for number in range(50)]

    for run in runs:
        assert probe.wait(run, timeout_s=90.0).status == "completed", worker.log()
        assert probe.done(run) == {"look": 1, "put": 1, "send": 1, "total": 1}
    assert len(probe.model.requests) == 50 * 5
    verified = json.loads(probe.cli("verify", "--json").stdout)
    assert (verified["runs"], verified["problems"]) == (50, {})
