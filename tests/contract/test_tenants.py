"""
Tenants take turns in a lane, are held to limits of their own in all lanes together, and never hold
up others.
"""

from __future__ import annotations

import pytest

from mulligan.events.slots import Called, Lane, Load, Queued, Refused, Slots, Taken
from mulligan.events.tenants import DEFAULT, REQUESTS, RUNS, TOGETHER, TenantLimits, packed
from tests.contract.conftest import Subject

HOLD_MS = 10_000
ONE = Lane(name="openai/some", concurrent=1)


@pytest.fixture
def slots(subject: Subject) -> Slots:
    return subject.slots


def take(
    slots: Slots, tenant: str | None, who: str, lane: Lane = ONE, **options: int
) -> Taken | Queued | Refused:
    return slots.take(lane, who, f"{tenant}/{who}", hold_ms=HOLD_MS, tenant=tenant, **options)


def give_back(slots: Slots, tenant: str | None, who: str, lane: Lane = ONE) -> list[str]:
    return [one.waiter for one in slots.give_back(lane, f"{tenant}/{who}", tenant=tenant)]


def limit(slots: Slots, tenant: str, **limits: int) -> tuple[Called, ...]:
    return slots.limit(tenant, packed(TenantLimits(**limits)))


def test_tenants_take_turns_whoever_came_first(slots: Slots) -> None:
    """One that came late waits for one slot of each other tenant, however many of them wait."""
    take(slots, "a", "a0")
    for n in range(1, 6):
        take(slots, "a", f"a{n}", since_ms=n)
    take(slots, "b", "b1", since_ms=100)
    take(slots, None, "of nobody", since_ms=101)

    order, holder = [], ("a", "a0")
    for _ in range(7):
        (called,) = slots.give_back(ONE, "/".join(map(str, holder)), tenant=holder[0])
        order.append(called.waiter)
        holder = (called.tenant, called.waiter)
        assert isinstance(take(slots, *holder), Taken)

    assert order == ["a1", "b1", "of nobody", "a2", "a3", "a4", "a5"]


def test_a_tenant_that_is_at_its_limit_does_not_hold_up_others(slots: Slots) -> None:
    limit(slots, "a", requests=1)
    lane = Lane(name="wide", concurrent=10)
    take(slots, "a", "a0", lane)

    waits = take(slots, "a", "a1", lane)

    assert isinstance(waits, Queued)
    assert (waits.by_tenant, waits.ahead) == (True, 0)
    assert isinstance(take(slots, "b", "b1", lane), Taken)
    assert give_back(slots, "b", "b1", lane) == []
    assert give_back(slots, "a", "a0", lane) == ["a1"]


def test_a_tenants_limit_counts_in_all_lanes_together(slots: Slots) -> None:
    limit(slots, "a", requests=1)
    other = Lane(name="groq", concurrent=5)
    take(slots, "a", "a0")

    assert isinstance(take(slots, "a", "a1", other), Queued)
    assert slots.give_back(ONE, "a/a0", tenant="a") == (Called("a1", 0, "groq", "a"),)


def test_who_has_no_tenant_is_not_limited(slots: Slots) -> None:
    limit(slots, DEFAULT, requests=1, runs=1)
    lane = Lane(name="wide", concurrent=10)

    assert isinstance(take(slots, None, "x", lane), Taken)
    assert isinstance(take(slots, None, "y", lane), Taken)


def test_a_tenant_has_the_defaults_limits_where_it_has_none_of_its_own(slots: Slots) -> None:
    limit(slots, DEFAULT, requests=1)
    limit(slots, "large", requests=2)
    slots.limit("free", packed(TenantLimits(requests="none")))

    def at_once(tenant: str) -> int:
        answers = [take(slots, tenant, f"{tenant}{n}", REQUESTS) for n in range(4)]
        return sum(isinstance(one, Taken) for one in answers)

    assert [at_once(tenant) for tenant in ("other", "large", "free")] == [1, 2, 4]


def test_a_raised_limit_lets_waiters_go_at_once(slots: Slots) -> None:
    limit(slots, "a", requests=1)
    for n in range(4):
        take(slots, "a", f"a{n}", REQUESTS, since_ms=n + 1)

    called = limit(slots, "a", requests=3)

    assert [(one.waiter, one.lane) for one in called] == [("a1", "tenants"), ("a2", "tenants")]
    assert slots.limits() == {"a": "- 3 - - -"}


def test_a_minute_sees_no_more_requests_of_a_tenant_than_it_may_send(subject: Subject) -> None:
    limit(subject.slots, "a", per_minute=60)
    answers = [take(subject.slots, "a", f"a{n}", REQUESTS, since_ms=n + 1) for n in range(9)]

    assert sum(isinstance(one, Taken) for one in answers) == 6
    waits = [one.wait_ms for one in answers if isinstance(one, Queued)]
    assert waits == pytest.approx([60_000 / 55 * n for n in (1, 2, 3)], abs=200)
    subject.pass_time(waits[0] + 1)
    assert isinstance(take(subject.slots, "a", "a6", REQUESTS), Taken)
    assert isinstance(take(subject.slots, "a", "a8", REQUESTS), Queued)


def test_tokens_are_reserved_as_thought_and_settled_as_taken(subject: Subject) -> None:
    """6,000 a minute: 600 at once, then one in 11.1 ms; what was taken more is waited for."""
    slots = subject.slots
    limit(slots, "a", tokens_per_minute=6_000)
    take(slots, "a", "first", REQUESTS, tokens=600)
    waits = take(slots, "a", "second", REQUESTS, tokens=100)
    assert isinstance(waits, Queued)
    assert waits.wait_ms == pytest.approx(1_111, abs=200)

    slots.give_back(REQUESTS, "a/first", tenant="a", tokens=300)
    waits = take(slots, "a", "second", REQUESTS, tokens=100)
    assert isinstance(waits, Queued)
    assert waits.wait_ms == pytest.approx(4_444, abs=400)

    slots.give_back(REQUESTS, "a/first", tenant="a", tokens=-900)
    assert isinstance(take(slots, "a", "second", REQUESTS, tokens=100), Taken)


def test_a_request_beyond_all_tokens_at_once_goes_when_all_are_there(subject: Subject) -> None:
    limit(subject.slots, "a", tokens_per_minute=600)
    assert isinstance(take(subject.slots, "a", "huge", REQUESTS, tokens=5_000), Taken)

    waits = take(subject.slots, "a", "next", REQUESTS, tokens=1)

    assert isinstance(waits, Queued)
    assert waits.wait_ms > 60_000


def test_runs_keep_their_place_until_somebody_finds_that_they_do_not_go_on(
    subject: Subject,
) -> None:
    slots = subject.slots
    limit(slots, "a", runs=1)
    take(slots, "a", "one/", RUNS)
    subject.pass_time(HOLD_MS + 1)

    assert isinstance(take(slots, "a", "two/", RUNS), Queued)
    assert slots.unrenewed(HOLD_MS) == ("a/one/",)
    assert slots.unrenewed(HOLD_MS) == ()
    assert give_back(slots, "a", "one/", RUNS) == ["two/"]


def test_more_runs_than_may_are_not_put_in_line_but_those_that_are_in_it_stay(
    slots: Slots,
) -> None:
    limit(slots, "a", runs=1, queued=2)
    take(slots, "a", "r0/", RUNS)
    for name in ("r1/", "r2/"):
        assert isinstance(take(slots, "a", name, RUNS, bounded=True), Queued)

    assert take(slots, "a", "r3/", RUNS, bounded=True) == Refused(2)
    assert isinstance(take(slots, "a", "r2/", RUNS, bounded=True), Queued)
    assert slots.loads()["tenant/a/runs"] == Load(held=1, waiting=2, paused_ms=0)


def test_all_tenants_together_share_what_they_may(slots: Slots) -> None:
    limit(slots, TOGETHER, runs=2)
    for n in range(5):
        take(slots, "a", f"a{n}/", RUNS, since_ms=n + 1)
    take(slots, "b", "b0/", RUNS, since_ms=100)

    assert give_back(slots, "a", "a0/", RUNS) == ["a2/"]
    assert isinstance(take(slots, "a", "a2/", RUNS), Taken)
    assert give_back(slots, "a", "a1/", RUNS) == ["b0/"]


def test_a_run_that_goes_on_after_a_pause_is_counted_whatever_the_limit(slots: Slots) -> None:
    limit(slots, "a", runs=1)
    take(slots, "a", "one/", RUNS)

    slots.keep(RUNS, "a/two/", hold_ms=HOLD_MS, tenant="a")

    assert slots.loads()["tenant/a/runs"].held == 2
    take(slots, "a", "three/", RUNS)
    assert give_back(slots, "a", "one/", RUNS) == []
    assert give_back(slots, "a", "two/", RUNS) == ["three/"]


def test_a_tenants_slot_comes_back_when_its_holder_is_gone(subject: Subject) -> None:
    limit(subject.slots, "a", requests=1)
    take(subject.slots, "a", "dead", REQUESTS)
    waits = take(subject.slots, "a", "next", REQUESTS)
    assert isinstance(waits, Queued)
    assert waits.wait_ms <= HOLD_MS
    subject.slots.renew([(REQUESTS, "a/dead"), (Lane(name="tenant/a/requests"), "a/dead")], HOLD_MS)
    subject.pass_time(HOLD_MS - 500)
    assert isinstance(take(subject.slots, "a", "next", REQUESTS), Queued)

    subject.pass_time(600)

    assert isinstance(take(subject.slots, "a", "next", REQUESTS), Taken)
