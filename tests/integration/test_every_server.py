"""The same runs, with real workers, on each kind of server: Valkey, Redis 7, and a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.events.store import EventStore
from mulligan.projections.history import problems
from mulligan.projections.projector import Projector, lag
from mulligan.projections.rows import STORED
from mulligan.projections.verify import problems_of

pytestmark = pytest.mark.server

RUNS = 4


def test_runs_end_and_their_rows_are_what_their_histories_fold_to(probe_everywhere: Any) -> None:
    """Agents, tools, a subagent and a function, in two processes; rows live and rebuilt are one."""
    on = probe_everywhere
    on.worker(processes=2)
    runs = [on.enqueue(f"run{number}") for number in range(RUNS)]
    assert {on.wait(run).status for run in runs} == {"completed"}, on.told()

    store = on.client.store
    Projector(store).catch_up()
    live = rows_of(store)
    assert [lag(store, rows) for rows in STORED] == [0] * len(STORED)
    for run in runs:
        events = on.events(run)
        assert problems(events) == []
        assert problems_of(store, run, events) == []
        assert set(on.done(run).values()) == {1}, "each tool and function ran once"
    for partition in range(store.partitions()):
        assert list(STORED) == Projector(store).rebuild(STORED, partition)
    assert rows_of(store) == live
    assert len(live[STORED[0].name]) == RUNS
    assert store.audit() == []


def test_a_killed_worker_is_taken_over_and_its_write_is_not_repeated(probe_everywhere: Any) -> None:
    """REC-31: the receipt was lost with the worker, so a person has to say what became of it."""
    on = probe_everywhere
    on.worker("tool.after:3:kill")
    run = on.enqueue("run")

    state = on.wait(run)

    assert (state.status, state.reason) == ("paused", "reconciliation_required"), on.told()
    on.client.reconcile(run, "gather.2.1", "succeeded", result="sent")
    assert on.wait(run).status == "completed"
    assert on.done(run)["send"] == 1


def rows_of(store: EventStore) -> dict[str, dict[Any, bytes]]:
    return {
        rows.name: {
            run: row
            for partition in range(store.partitions())
            for run, row in store.rows(rows.name, partition).items()
        }
        for rows in STORED
    }
