"""
REC-31, REC-32: two workers have a write, and the first is only slow. It is done once, and what the
first says of it settles the call, however late.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan.events import facts
from mulligan.events.keys import Keys
from mulligan.events.redis_connection import connect
from mulligan.projections.verify import problems_of
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

flows = pytest.mark.parametrize(
    ("flow", "call"), [("hand_over", "gather.1.1"), ("hand_over_node", "hand_over")]
)


@pytest.fixture
def begun(probe: Any, fork: Any) -> Callable[..., tuple[Any, str]]:
    """Starts a worker on a run of that flow, and returns both while it is inside the write."""
    hand_over = {"name": "hand_over", "arguments": {}}
    probe.model.play(
        {"turns": [probe.turn(0, tool_calls=[hand_over]), probe.turn(1, json={"found": 1})]}
    )

    def begin(flow: str, **options: Any) -> tuple[Any, str]:
        first = fork(**options)
        run = probe.enqueue(flow=flow)
        until(lambda: probe.done(run)["hand_over"], 30.0, first.log)
        return first, run

    return begin


def finish(probe: Any) -> None:
    """Let the write come to its end."""
    Path(f"{probe.record}.go").touch()


def sleep(worker: Any) -> None:
    os.kill(worker.pid, signal.SIGSTOP)
    until(lambda: worker.stopped, 10.0)


def receipts(probe: Any, run: str) -> list[tuple[str, str]]:
    events = (event.data for event in probe.events(run))
    arrived = [fact for fact in events if isinstance(fact, facts.ToolReceiptArrived)]
    return [(fact.call_id, fact.outcome) for fact in arrived]


def assert_done_once(probe: Any, run: str) -> None:
    assert probe.done(run)["hand_over"] == 1, "the write was done twice"
    assert problems_of(probe.client.store, run, probe.events(run)) == []


@flows
def test_a_worker_sleeps_beyond_its_lease_while_its_write_comes_to_an_end(
    probe: Any, fork: Any, begun: Any, flow: str, call: str
) -> None:
    first, run = begun(flow)
    sleep(first)
    finish(probe)
    fork()
    assert probe.wait(run).reason == "reconciliation_required"

    first.wake()

    state = probe.until(run, lambda state: state.ended)
    assert state.status == "completed", probe.stuck(run)
    assert receipts(probe, run) == [(call, "succeeded")]
    assert "EffectReconciled" not in probe.types(run), "nobody had to be asked"
    assert_done_once(probe, run)


@flows
def test_a_worker_sleeps_beyond_its_lease_and_its_write_is_cut_off(
    probe: Any, fork: Any, begun: Any, flow: str, call: str
) -> None:
    """Nobody knows what became of it, and the one who slept does not claim to."""
    first, run = begun(flow)
    sleep(first)
    fork()
    assert probe.wait(run).reason == "reconciliation_required"

    first.wake()
    until(lambda: receipts(probe, run), 30.0, first.log)
    finish(probe)

    assert receipts(probe, run) == [(call, "unknown")]
    assert probe.client.status(run).reason == "reconciliation_required"
    probe.client.reconcile(run, call, "succeeded", result="as the other side says")
    assert probe.until(run, lambda state: state.ended).status == "completed"
    assert_done_once(probe, run)


@flows
def test_two_workers_believe_that_the_task_is_theirs(
    probe: Any, fork: Any, begun: Any, flow: str, call: str
) -> None:
    """As when the server's clock is set: the lease is over there, and its holder does not know."""
    _, run = begun(flow, lease_ms=10_000, threads=1)
    fork()
    with connect(probe.url) as client:
        (task,) = client.zrange(Keys(0).due, 0, -1)

        def taken() -> bool:
            # Again and again, since the first renews it.
            client.zadd(Keys(0).due, {task: 0}, xx=True)
            return bool(probe.client.status(run).reason == "reconciliation_required")

        until(taken, 30.0, lambda: probe.stuck(run))

    assert_done_once(probe, run)
    finish(probe)
    assert probe.until(run, lambda state: state.ended).status == "completed"
    assert receipts(probe, run) == [(call, "succeeded")]
    assert_done_once(probe, run)
