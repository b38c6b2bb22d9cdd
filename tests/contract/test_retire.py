"""Ended runs that are taken off the log, on every store."""

from __future__ import annotations

import pytest

from mulligan.errors import EventUnreadable, RunClosed, RunExists
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import NodeReady, RunCompleted, RunStarted
from mulligan.events.payload import INLINE_LIMIT_BYTES, Payload
from mulligan.events.store import (
    Append,
    AsFact,
    AsNew,
    ByTask,
    ByVersion,
    Claimed,
    EventStore,
    Move,
    NotClaimed,
    Retired,
    Row,
)
from mulligan.events.tasks import node_task, run_task
from tests.contract.conftest import row_digest

LARGE = Payload.of("x" * (INLINE_LIMIT_BYTES + 1))
LEASE_MS = 10_000
OWN, WAITING = run_task("run"), node_task("run", "a")


def begin(log: EventStore) -> Claimed:
    log.append(
        Append(
            run="run",
            op="begin",
            writer=AsNew("digest"),
            events=(NewEvent(RunStarted()), NewEvent(NodeReady(), node="a")),
            moves=(Move(OWN, "ready"), Move(WAITING, "ready")),
        )
    )
    claimed = log.claim("run", OWN, "token", LEASE_MS)
    assert isinstance(claimed, Claimed)
    return claimed


def end(log: EventStore) -> Retired:
    """A run that has ended, with a large value, a node's task left over, a snapshot and a row."""
    begin(log)
    log.append(
        Append(
            run="run",
            op="end",
            writer=ByTask(OWN, "token", "", 0),
            events=(NewEvent(RunCompleted(output=LARGE)),),
            moves=(Move(OWN, "end"),),
            phase="closed",
        )
    )
    assert log.keep_snapshot("run", 3, b"state", gap_events=1, ttl_ms=LEASE_MS)
    assert log.commit_rows("list", 0, expected="0", checkpoint="1-1", rows={"run": b"row"})
    return Retired(
        run="run",
        version=3,
        last_event=log.stored("run")[-1].raw,
        payloads=(LARGE.digest,),
        tasks=(OWN, WAITING),
        projections=("list", "list~rebuilt"),
    )


def test_nothing_stays_of_a_retired_run_but_its_row_in_the_index(log: EventStore) -> None:
    retired = end(log)
    assert len(log.stored("run")) == 3

    assert log.retire(retired) == "OK"
    assert log.row("run") == Row(3, "archived", row_digest(log, "run", "digest"))
    assert (log.stored("run"), log.read("run"), log.snapshot("run")) == ([], [], None)
    assert log.rows("list", 0) == {}
    with pytest.raises(EventUnreadable):
        log.payload("run", LARGE.digest)
    assert log.claim("run", WAITING, "late", LEASE_MS) == NotClaimed("GONE")
    assert log.sweep().tasks == ()
    assert log.audit() == []
    assert log.retire(retired) == "OK"


def test_its_id_is_known_and_takes_nothing_more(log: EventStore) -> None:
    log.retire(end(log))
    more = (NewEvent(RunStarted()),)

    again = log.append(Append(run="run", op="again", writer=AsNew("digest"), events=more))
    assert (again.repeated, again.version) == (True, 3)
    with pytest.raises(RunExists):
        log.append(Append(run="run", op="other", writer=AsNew("other"), events=more))
    late = [AsFact("x.1.1", receipt=True), AsFact("cancel"), ByVersion(3)]
    for writer in (*late, ByTask(WAITING, "late", "", 0)):
        with pytest.raises(RunClosed):
            log.append(Append(run="run", op="late", writer=writer, events=more))
    assert not log.keep_snapshot("run", 3, b"state", gap_events=1, ttl_ms=LEASE_MS)


def test_a_projector_that_was_under_way_does_not_bring_its_row_back(log: EventStore) -> None:
    log.retire(end(log))

    assert log.commit_rows(
        "list", 0, expected="1-1", checkpoint="1-2", rows={"run": b"late", "other": b"row"}
    )
    assert log.rows("list", 0) == {"other": b"row"}
    assert log.checkpoint("list", 0) == "1-2"


def test_only_what_was_kept_is_retired(log: EventStore) -> None:
    assert log.retire(Retired(run="run", version=1, last_event=b"")) == "GONE"
    begin(log)
    assert log.retire(Retired(run="run", version=2, last_event=log.stored("run")[-1].raw)) == "OPEN"


def test_a_run_that_changed_meanwhile_stays(log: EventStore) -> None:
    retired = end(log)
    log.append(
        Append(
            run="run",
            op="late",
            writer=AsFact("x.1.1", receipt=True),
            events=(NewEvent(RunStarted()),),
        )
    )
    assert log.retire(retired) == "MOVED"
    other = Retired(run="run", version=4, last_event=retired.last_event)
    assert log.retire(other) == "MOVED", "set back, and gone on to as many events"
    assert len(log.read("run")) == 4


def test_a_run_one_of_whose_tasks_is_leased_stays_until_the_lease_is_over(
    log: EventStore, subject: object
) -> None:
    claimed = begin(log)
    held = log.claim("run", WAITING, "tool", LEASE_MS)
    assert isinstance(held, Claimed)
    log.append(
        Append(
            run="run",
            op="end",
            writer=ByTask(OWN, "token", claimed.op, 0),
            events=(NewEvent(RunCompleted(output=LARGE)),),
            moves=(Move(OWN, "end"),),
            phase="closed",
        )
    )
    last = log.stored("run")[-1].raw
    retired = Retired(run="run", version=3, last_event=last, tasks=(OWN, WAITING))

    assert log.retire(retired) == "HELD"
    subject.pass_time(LEASE_MS + 1)  # type: ignore[attr-defined]
    assert log.retire(retired) == "OK"
