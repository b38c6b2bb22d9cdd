"""
REC-34: slots are held under tokens, waited for in order, and come back from holders that died.
"""

from __future__ import annotations

import time
from threading import Barrier, Thread

import pytest

from mulligan.events.slots import (
    CALL_MS,
    LONGEST_PAUSE_MS,
    Called,
    Lane,
    Load,
    Queued,
    Slots,
    Taken,
)
from tests.contract.conftest import Subject

HOLD_MS = 10_000
TWO = Lane(name="openai/some at api.example/v1", concurrent=2)
JUMP_MS = 400_000
RATED = Lane(name="openai/rated", per_minute=60)
"""Six at once, then one in 60,000 / 55 ms."""


@pytest.fixture
def slots(subject: Subject) -> Slots:
    return subject.slots


def take(slots: Slots, who: str, lane: Lane = TWO, since_ms: int | None = None) -> Taken | Queued:
    return slots.take(lane, who, f"token of {who}", hold_ms=HOLD_MS, since_ms=since_ms)


def give_back(slots: Slots, who: str, lane: Lane = TWO, pause_ms: int = 0) -> list[str]:
    called = slots.give_back(lane, f"token of {who}", pause_ms=pause_ms)
    return [one.waiter for one in called]


def in_line(slots: Slots, *waiters: str) -> None:
    """Let waiters come one after the other: in the same millisecond their names would decide."""
    for n, waiter in enumerate(waiters, start=1):
        assert isinstance(take(slots, waiter, since_ms=n), Queued)


def test_as_many_are_held_as_the_limit_allows(slots: Slots) -> None:
    assert isinstance(take(slots, "a"), Taken)
    assert isinstance(take(slots, "b"), Taken)

    refused = take(slots, "c")

    assert isinstance(refused, Queued)
    assert (refused.ahead, refused.called) == (0, ())
    assert slots.loads() == {TWO.name: Load(held=2, waiting=1, paused_ms=0)}


def test_a_repeated_take_holds_one_slot_and_not_two(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "a")

    assert isinstance(take(slots, "b"), Taken)


def test_a_slot_that_is_given_back_goes_to_who_waits_longest(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "b")
    in_line(slots, "first", "second", "third")

    assert give_back(slots, "a") == ["first"]
    assert isinstance(take(slots, "newcomer"), Queued)
    assert isinstance(take(slots, "second"), Queued)
    assert isinstance(take(slots, "first"), Taken)
    assert give_back(slots, "b") == ["second"]


def test_each_is_called_once_and_no_more_than_there_are_slots(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "b")
    in_line(slots, "first", "second", "third")

    assert give_back(slots, "a") == ["first"]
    assert give_back(slots, "b") == ["second"]
    assert give_back(slots, "b") == []


def test_a_token_that_holds_nothing_gives_nothing_back(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "b")
    in_line(slots, "first")

    assert give_back(slots, "stranger") == []
    assert isinstance(take(slots, "first"), Queued)


def test_a_slot_comes_back_when_its_holder_does_not_renew_it(subject: Subject) -> None:
    slots = subject.slots
    take(slots, "dead")
    take(slots, "alive")
    waits = take(slots, "first")
    assert isinstance(waits, Queued)
    subject.pass_time(HOLD_MS - 2_000)
    slots.renew([(TWO, "token of alive")], HOLD_MS)

    assert waits.wait_ms <= HOLD_MS
    subject.pass_time(2_100)
    assert isinstance(take(slots, "first"), Taken)
    assert isinstance(take(slots, "second"), Queued)


def test_a_slot_that_was_given_back_is_not_renewed(slots: Slots) -> None:
    take(slots, "a")
    give_back(slots, "a")
    slots.renew([(TWO, "token of a"), (RATED, "token of nobody")], HOLD_MS)

    assert Load(held=0, waiting=0, paused_ms=0) == slots.loads()[TWO.name]


def test_who_finds_slots_of_the_dead_calls_the_others(subject: Subject) -> None:
    slots = subject.slots
    take(slots, "dead 1")
    take(slots, "dead 2")
    in_line(slots, "first", "second", "third")
    subject.pass_time(HOLD_MS + 1)

    assert take(slots, "first") == Taken((Called("second", 0),))


def test_one_that_is_called_and_does_not_come_is_passed_over_and_keeps_its_time(
    subject: Subject,
) -> None:
    slots = subject.slots
    take(slots, "a")
    take(slots, "b")
    in_line(slots, "late", "second", "third")
    assert give_back(slots, "a") == ["late"]
    subject.pass_time(CALL_MS + 1)
    slots.renew([(TWO, "token of b")], HOLD_MS)

    assert isinstance(take(slots, "second"), Taken)
    assert isinstance(take(slots, "late", since_ms=1), Queued)
    assert give_back(slots, "b") == ["late"]


def test_who_leaves_lets_the_next_one_be_called(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "b")
    in_line(slots, "gone", "second")
    assert give_back(slots, "a") == ["gone"]

    assert slots.leave(TWO, "gone") == (Called("second", 0),)
    assert slots.loads()[TWO.name] == Load(held=1, waiting=1, paused_ms=0)


def test_lanes_do_not_know_each_other(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "b")

    assert isinstance(take(slots, "c", Lane(name="other", concurrent=1)), Taken)


def test_without_anybody_called_the_first_look_soon_and_the_others_late(slots: Slots) -> None:
    take(slots, "a")
    take(slots, "b")
    waits = [take(slots, f"{n:03}", since_ms=n) for n in range(1, 101)]

    assert all(isinstance(one, Queued) for one in waits)
    assert sum(one.wait_ms <= HOLD_MS for one in waits if isinstance(one, Queued)) < 5
    last = waits[-1]
    assert isinstance(last, Queued)
    assert (last.ahead, last.wait_ms > 30_000) == (99, True)


def test_no_minute_sees_more_than_the_rate_allows(subject: Subject) -> None:
    began_s, passed_ms = time.monotonic(), 0
    taken_at: list[float] = []
    for n in range(400):
        answer = take(subject.slots, f"{n}", RATED)
        if isinstance(answer, Taken):
            taken_at.append(passed_ms + (time.monotonic() - began_s) * 1_000)
            continue
        subject.slots.leave(RATED, f"{n}")
        subject.pass_time(answer.wait_ms)
        passed_ms += answer.wait_ms

    # Our clock and the server's differ by what a call takes: a second less of each minute counts.
    in_a_minute = [sum(begin <= at < begin + 59_000 for at in taken_at) for begin in taken_at]
    assert max(in_a_minute) <= 60
    assert len(taken_at) / taken_at[-1] * 60_000 > 50


def test_waiters_are_told_when_the_rate_lets_each_of_them_go(slots: Slots) -> None:
    burst = [take(slots, f"burst {n}", RATED) for n in range(6)]
    waits = [take(slots, f"{n}", RATED, since_ms=n + 1) for n in range(5)]

    assert all(isinstance(one, Taken) for one in burst)
    times = [one.wait_ms for one in waits if isinstance(one, Queued)]
    expected = [(n + 1) * 60_000 / 55 for n in range(5)]
    assert times == pytest.approx(expected, abs=500)
    assert times == sorted(times)


def test_a_call_that_the_rate_delays_says_by_how_much(subject: Subject) -> None:
    lane = Lane(name="both", concurrent=1, per_minute=1)
    take(subject.slots, "a", lane)
    take(subject.slots, "first", lane)
    subject.pass_time(9_000)

    (called,) = subject.slots.give_back(lane, "token of a")

    assert called.waiter == "first"
    assert called.delay_ms == pytest.approx(51_000, abs=500)


def test_nobody_takes_a_slot_while_the_provider_wants_to_be_left_alone(subject: Subject) -> None:
    slots = subject.slots
    take(slots, "a")
    give_back(slots, "a", pause_ms=7_000)

    waits = take(slots, "b")

    assert isinstance(waits, Queued)
    assert waits.wait_ms == pytest.approx(7_000, abs=500)
    assert slots.loads()[TWO.name].paused_ms == pytest.approx(7_000, abs=500)
    subject.pass_time(7_001)
    assert isinstance(take(slots, "b"), Taken)


@pytest.mark.parametrize("lane", [TWO, RATED])
def test_a_clock_that_is_set_back_stops_no_lane(lane: Lane, subject: Subject) -> None:
    """One waits as long as the rate or the longest pause makes it, not as long as the jump was."""
    take(subject.slots, "a", lane)
    give_back(subject.slots, "a", lane)
    subject.pass_time(-JUMP_MS)

    next_one = take(subject.slots, "b", lane)
    assert isinstance(next_one, Taken) or next_one.wait_ms <= lane.spacing_ms + 1

    give_back(subject.slots, "b", lane, pause_ms=7_000)
    subject.pass_time(-JUMP_MS)
    waits = take(subject.slots, "c", lane)
    assert isinstance(waits, Queued)
    assert waits.wait_ms <= LONGEST_PAUSE_MS + 2 * lane.spacing_ms + 1
    assert subject.slots.loads()[lane.name].paused_ms <= LONGEST_PAUSE_MS


def test_a_pause_has_an_end(slots: Slots) -> None:
    take(slots, "a")
    give_back(slots, "a", pause_ms=10 * LONGEST_PAUSE_MS)

    assert slots.loads()[TWO.name].paused_ms <= LONGEST_PAUSE_MS


def test_threads_together_hold_no_more_than_the_limit(slots: Slots) -> None:
    barrier, answers = Barrier(8), []

    def compete(who: str) -> None:
        barrier.wait()
        answers.append(take(slots, who))

    threads = [Thread(target=compete, args=(f"thread {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(isinstance(one, Taken) for one in answers) == 2
