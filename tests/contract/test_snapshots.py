"""Kept states of runs, on every store."""

from __future__ import annotations

from typing import Any

from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.store import Append, AsFact, AsNew, EventStore


def run_of(log: EventStore, events: int) -> None:
    for number in range(events):
        writer = AsFact(f"fact{number}") if number else AsNew("digest")
        log.append(
            Append(run="run", op=f"op{number}", writer=writer, events=(NewEvent(RunStarted()),))
        )


def keep(log: EventStore, version: int, data: bytes, gap_events: int = 1) -> bool:
    return log.keep_snapshot("run", version, data, gap_events=gap_events, ttl_ms=60_000)


def test_what_was_kept_comes_back(log: EventStore) -> None:
    run_of(log, 3)
    assert log.snapshot("run") is None
    assert keep(log, 2, b"two")
    assert log.snapshot("run") == b"two"
    assert keep(log, 3, b"three")
    assert log.snapshot("run") == b"three"
    assert log.snapshot("other") is None


def test_one_that_will_do_is_left_as_it_is(log: EventStore) -> None:
    run_of(log, 6)
    assert keep(log, 3, b"three")
    assert not keep(log, 3, b"again")
    assert not keep(log, 2, b"older")
    assert not keep(log, 5, b"five", gap_events=3)
    assert log.snapshot("run") == b"three"
    assert keep(log, 6, b"six", gap_events=3)


def test_none_is_kept_that_is_ahead_of_its_run(log: EventStore) -> None:
    assert not keep(log, 1, b"no run")
    run_of(log, 1)
    assert not keep(log, 2, b"two")
    assert log.snapshot("run") is None


def test_none_is_kept_of_an_archived_run(subject: Any) -> None:
    run_of(subject.store, 2)
    subject.archive("run")
    assert not keep(subject.store, 2, b"two")


def test_one_that_was_left_by_a_server_set_back_is_replaced(subject: Any) -> None:
    run_of(subject.store, 3)
    keep(subject.store, 3, b"three")
    subject.set_back("run", 1)
    assert keep(subject.store, 1, b"one")
    assert subject.store.snapshot("run") == b"one"
