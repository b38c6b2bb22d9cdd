"""The streams of schedules, on every store: beside the runs, out of their lists, and bounded."""

from __future__ import annotations

import pytest

from mulligan.errors import VersionConflict
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    NodeReady,
    ScheduleCreated,
    ScheduleFired,
    SchedulePaused,
    ScheduleTerms,
)
from mulligan.events.payload import INLINE_LIMIT_BYTES, Payload
from mulligan.events.schedules import schedule_stream
from mulligan.events.store import Append, AsNew, ByTask, ByVersion, Claimed, EventStore, Move
from mulligan.events.tasks import parse_task, run_task

STREAM = schedule_stream("nightly")
OWN = run_task(STREAM)
LEASE_MS = 10_000


def create(log: EventStore) -> None:
    events = tuple(NewEvent(SchedulePaused(reason=str(number))) for number in range(3))
    log.append(
        Append(run=STREAM, op="new", writer=AsNew("d"), events=events, moves=(Move(OWN, "ready"),))
    )


def fire(log: EventStore, op: str, previous_op: str, *, begins_anew: bool = False) -> int:
    appended = log.append(
        Append(
            run=STREAM,
            op=op,
            writer=ByTask(OWN, "token", previous_op, 0),
            events=(NewEvent(ScheduleFired(run="r", due_ms=1)),) * 2,
            begins_anew=begins_anew,
        )
    )
    return appended.version


def test_a_schedule_has_a_task_of_its_kind_and_is_no_run(log: EventStore) -> None:
    create(log)
    log.append(Append(run="run", op="a", writer=AsNew("d"), events=(NewEvent(NodeReady()),)))
    assert parse_task(OWN) == (STREAM, "schedule", "nightly")
    assert [run for run, _ in log.runs()] == ["run"]
    assert list(log.schedules()) == [STREAM]
    assert [entry.run for entry in log.feed(0)] == ["run"], "the feed tells of runs"
    assert isinstance(log.claim(STREAM, OWN, "token", LEASE_MS), Claimed)


def test_a_stream_that_begins_anew_drops_what_stood_before(log: EventStore) -> None:
    create(log)
    log.claim(STREAM, OWN, "token", LEASE_MS)
    assert fire(log, "one", "") == 5
    assert fire(log, "two", "one", begins_anew=True) == 7
    assert [event.version for event in log.read(STREAM)] == [6, 7]
    assert [event.version for event in log.read(STREAM, limit=1)] == [6]
    assert fire(log, "two", "one", begins_anew=True) == 7, "repeated, it changes nothing"
    assert fire(log, "three", "two") == 9
    assert [event.version for event in log.read(STREAM)] == [6, 7, 8, 9]
    assert [event.version for event in log.read(STREAM, 7)] == [8, 9]
    row = log.row(STREAM)
    assert row is not None
    assert (row.version, row.phase) == (9, "open")


def test_people_write_to_it_at_a_version(log: EventStore) -> None:
    create(log)
    paused = (NewEvent(SchedulePaused()),)
    wake = (Move(OWN, "wake"),)
    seen = Append(run=STREAM, op="p", writer=ByVersion(3), events=paused, moves=wake)
    assert log.append(seen).version == 4
    with pytest.raises(VersionConflict):
        log.append(Append(run=STREAM, op="q", writer=ByVersion(3), events=paused))


def test_the_stream_of_a_run_is_never_shortened(log: EventStore) -> None:
    events = (NewEvent(NodeReady()),)
    with pytest.raises(ValueError, match="only a schedule's"):
        log.append(Append(run="run", op="a", writer=AsNew("d"), events=events, begins_anew=True))


def test_large_values_outlive_what_named_them_first(log: EventStore) -> None:
    large = Payload.of("x" * (INLINE_LIMIT_BYTES + 1))
    terms = ScheduleTerms(cron="0 6 * * 1", timezone="UTC", workflow="flow")
    created = (NewEvent(ScheduleCreated(terms=terms, input=large)),)
    log.append(
        Append(run=STREAM, op="new", writer=AsNew("d"), events=created, moves=(Move(OWN, "ready"),))
    )
    log.claim(STREAM, OWN, "token", LEASE_MS)
    fire(log, "one", "", begins_anew=True)
    assert len(log.payload(STREAM, large.digest)) == large.size
