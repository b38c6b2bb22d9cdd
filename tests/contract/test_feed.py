"""Trimming the feed, and rows that take the place of others, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.errors import FeedTrimmed
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.store import Append, AsFact, AsNew, EventStore

IDLE_MS = 60_000


def grow(log: EventStore, entries: int, run: str = "run") -> list[str]:
    """Feed ids of so many appends."""
    for number in range(entries):
        writer = AsFact(f"{run}{number}") if number else AsNew("digest")
        log.append(
            Append(run=run, op=f"{run}.{number}", writer=writer, events=(NewEvent(RunStarted()),))
        )
    return [entry.id for entry in log.feed(0)]


def commit(log: EventStore, projection: str, expected: str, checkpoint: str) -> None:
    assert log.commit_rows(
        projection, 0, expected=expected, checkpoint=checkpoint, rows={"run": b"row"}
    )


def trim(log: EventStore, keep: int = 1) -> int:
    return log.trim_feed(0, keep=keep, idle_ms=IDLE_MS)


def test_the_slowest_follower_holds_the_feed_up(log: EventStore) -> None:
    ids = grow(log, 6)
    commit(log, "fast", "0", ids[5])
    commit(log, "slow", "0", ids[2])

    assert trim(log) == 2, "its own entry stays"
    assert [entry.id for entry in log.feed(0, ids[2])] == ids[3:]
    assert trim(log) == 0
    commit(log, "slow", ids[2], ids[4])
    assert trim(log) == 2
    assert log.feed_end(0) == ids[5]


def test_one_that_has_read_nothing_holds_up_all(log: EventStore) -> None:
    grow(log, 3)
    commit(log, "new", "0", "0")
    assert trim(log) == 0


def test_the_newest_stay_in_any_case(log: EventStore) -> None:
    ids = grow(log, 6)
    assert trim(log, keep=7) == 0
    assert trim(log, keep=4) == 2, "nobody follows"
    with pytest.raises(FeedTrimmed):
        log.feed(0)
    assert [entry.id for entry in log.feed(0, ids[1])] == ids[2:]


def test_a_reader_that_fell_behind_is_told(log: EventStore) -> None:
    ids = grow(log, 6)
    trim(log, keep=2)

    with pytest.raises(FeedTrimmed) as gap:
        log.feed(0, ids[1])
    assert (gap.value.after, gap.value.trimmed) == (ids[1], ids[3])
    assert [entry.id for entry in log.feed(0, gap.value.trimmed)] == ids[4:]

    with pytest.raises(FeedTrimmed):
        log.feed(0, wait_ms=50)


def test_an_idle_projection_is_not_waited_for(log: EventStore, subject: Any) -> None:
    ids = grow(log, 4)
    commit(log, "idle", "0", ids[0])
    subject.pass_time(IDLE_MS + 1)
    commit(log, "live", "0", ids[3])

    assert trim(log) == 3
    with pytest.raises(FeedTrimmed):
        log.feed(0, log.checkpoint("idle", 0))


def test_rebuilt_rows_take_the_place_of_the_live_ones(log: EventStore) -> None:
    ids = grow(log, 2)
    commit(log, "run", "0", ids[0])
    assert log.commit_rows("new", 0, expected="0", checkpoint=ids[1], rows={"run": b"rebuilt"})

    assert not log.switch_rows("new", "run", 0, expected=ids[0])
    assert log.switch_rows("new", "run", 0, expected=ids[1])
    assert (log.checkpoint("run", 0), log.rows("run", 0)) == (ids[1], {"run": b"rebuilt"})
    assert (log.checkpoint("new", 0), log.rows("new", 0)) == ("0", {})
    assert not log.switch_rows("new", "run", 0, expected=ids[1])
    assert trim(log) == 1, "the switched one follows from where it stands"


def test_dropped_rows_hold_nothing_up(log: EventStore) -> None:
    ids = grow(log, 2)
    commit(log, "run", "0", ids[0])
    log.drop_rows("run", 0)

    assert (log.checkpoint("run", 0), log.rows("run", 0)) == ("0", {})
    assert trim(log) == 1
