"""A run that is watched from outside, and a log that turns out to be another."""

from __future__ import annotations

from contextlib import closing

import pytest

from mulligan.commands.live import watched
from mulligan.errors import RunSetBack, RunUnknown
from mulligan.events.deltas import Delta
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import Fact, RunPaused, RunRequested, RunStarted
from mulligan.events.memory_deltas import MemoryDeltas
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.payload import Payload
from mulligan.events.store import Append, AsNew, ByVersion
from mulligan.schemas.plan import plan_to_dict
from mulligan.testing.given import plan_of
from mulligan.watch import Reading, Watch

SAID = Delta(
    run="run",
    node="a",
    invocation="a",
    attempt=1,
    request_id="a#1",
    kind="text",
    offset=0,
    text="so far",
)
PAUSED = RunPaused(reason="operator", detail="")


@pytest.fixture
def log() -> MemoryEventStore:
    plan = plan_of()
    asked = RunRequested(
        workflow="flow", workflow_version=1, digest="", plan=plan_to_dict(plan), input=Payload.of(1)
    )
    store = MemoryEventStore(lambda: 1_000)
    store.append(Append(run="run", op="ask", writer=AsNew("digest"), events=(NewEvent(asked),)))
    return store


def add(log: MemoryEventStore, op: str, fact: Fact) -> None:
    row = log.row("run")
    assert row is not None
    writer = ByVersion(row.version)
    log.append(Append(run="run", op=op, writer=writer, events=(NewEvent(fact),)))


def set_back(log: MemoryEventStore, version: int) -> None:
    del log._runs["run"].events[version:]


def test_a_watched_run_is_over_when_it_is_paused(log: MemoryEventStore) -> None:
    watch = Watch(log, "run")
    add(log, "start", RunStarted())
    seen = [event.type for event in watch.look()]
    assert not watch.over

    add(log, "pause", PAUSED)
    seen += [event.type for event in watch.look()]

    assert ["RunRequested", "RunStarted", "RunPaused"] == seen
    assert watch.over


def test_two_histories_are_never_mixed(log: MemoryEventStore) -> None:
    """The server is set back, and the run goes on beyond what was seen, another way."""
    watch = Watch(log, "run")
    add(log, "pause", PAUSED)
    watch.look()
    set_back(log, 1)
    add(log, "start", RunStarted())
    add(log, "park", RunPaused(reason="parked", detail=""))

    assert [] == watch.look()
    anew = [event.id for event in watch.look()]

    assert ["ask.0", "start.0", "park.0"] == anew
    assert ("parked", 3) == (watch.state.reason, watch.state.version)


def test_a_run_that_is_set_back_while_nothing_comes_begins_anew(
    log: MemoryEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.watch.WAIT_MS", 1)
    watch = Watch(log, "run")
    add(log, "start", RunStarted())
    watch.look()
    set_back(log, 1)

    watch.look()

    assert (0, "queued") == (watch.state.version, watch.state.status)


def test_a_run_that_is_gone_is_said_to_be(log: MemoryEventStore) -> None:
    watch = Watch(log, "run")
    watch.look()
    del log._runs["run"]

    with pytest.raises(RunUnknown):
        watch.look()
    with pytest.raises(RunUnknown):
        Watch(log, "run")


def test_live_output_is_of_one_history_too(log: MemoryEventStore) -> None:
    """The server is set back while something is being said: from there on all begins anew."""
    add(log, "start", RunStarted())
    deltas, shown = MemoryDeltas(), []
    with closing(deltas.subscribe("run")) as heard:
        deltas.publish(SAID)
        for line in watched(Watch(log, "run"), heard):
            if isinstance(line, Delta):
                set_back(log, 1)
                add(log, "park", RunPaused(reason="parked", detail=""))
            shown.append(line.type if isinstance(line, Envelope) else type(line).__name__)

    assert ["RunRequested", "RunStarted", "Delta", "RunRequested", "RunPaused"] == shown


@pytest.mark.parametrize("goes_on", [True, False])
def test_who_follows_a_run_is_told_of_a_set_back(log: MemoryEventStore, goes_on: bool) -> None:
    """Whether the run has gone on another way by then, or stands where it was."""
    add(log, "start", RunStarted())
    reading = Reading(log, "run", follow=True)
    assert [1, 2] == [event.version for event in reading.page()]
    set_back(log, 1)
    if goes_on:
        add(log, "pause", PAUSED)
        add(log, "again", RunStarted())

    with pytest.raises(RunSetBack, match="event 2"):
        reading.page(wait_ms=1)


def test_who_goes_on_from_where_the_log_does_not_reach_is_told(log: MemoryEventStore) -> None:
    with pytest.raises(RunSetBack, match="event 7"):
        Reading(log, "run", 7, follow=True).page(wait_ms=1)
    assert [] == Reading(log, "run", 7).page()


def test_a_run_that_is_followed_is_read_to_its_end_and_not_beyond(log: MemoryEventStore) -> None:
    reading = Reading(log, "run", follow=True)
    assert ([1], True) == ([event.version for event in reading.page()], reading.more)
    row = log.row("run")
    assert row is not None
    end = Append(
        run="run",
        op="end",
        writer=ByVersion(row.version),
        events=(NewEvent(RunStarted()),),
        phase="closed",
    )
    log.append(end)

    assert ([2], False) == ([event.version for event in reading.page()], reading.more)
    assert not Reading(log, "run", 2, follow=True).page(wait_ms=1)


def test_who_waits_looks_away_for_a_share_of_the_time_and_never_long(
    log: MemoryEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("mulligan.watch.monotonic", lambda: now_s)
    watch = Watch(log, "run")
    assert watch.pause_s == 0

    now_s += 0.010
    assert watch.pause_s == pytest.approx(0.001)

    now_s += 3_600
    assert watch.pause_s == 0.002
