"""Whether a server's clock has run evenly, as leases need it (REC-31)."""

from __future__ import annotations

import pytest

from mulligan.actors.server_clock import ServerClocks

LEASE_MS, TOLERANCE_MS = 10_000, 1_000


class World:
    def __init__(self) -> None:
        self.passed_s = 100.0
        self.ahead_ms = 1_700_000_000_000
        self.clocks = ServerClocks(LEASE_MS, TOLERANCE_MS, lambda: self.passed_s)

    def seen(self, after_s: float, *, delayed_s: float = 0.0, partition: int = 0) -> int:
        self.passed_s += after_s
        sent_s = self.passed_s
        told_ms = round(self.passed_s * 1_000) + self.ahead_ms
        self.passed_s += delayed_s
        self.clocks.seen(partition, told_ms, sent_s)
        return self.clocks.others_end_in_ms(partition)


@pytest.fixture
def world() -> World:
    return World()


def test_a_process_that_has_just_begun_can_t_tell_and_waits_for_a_lease(world: World) -> None:
    assert LEASE_MS == world.clocks.others_end_in_ms(0)
    assert [LEASE_MS, 6_000, 0] == [world.seen(0), world.seen(4), world.seen(6)]


def test_a_clock_that_was_set_forward_begins_anew(world: World) -> None:
    world.seen(0)
    assert 0 == world.seen(60)

    world.ahead_ms += 5_000

    assert [LEASE_MS, 1_000, 0] == [world.seen(0), world.seen(9), world.seen(1)]


@pytest.mark.parametrize("by_ms", [-60_000, TOLERANCE_MS])
def test_a_clock_that_was_set_back_or_runs_a_little_fast_ends_no_lease_early(
    world: World, by_ms: int
) -> None:
    world.seen(0)
    world.seen(60)

    world.ahead_ms += by_ms

    assert 0 == world.seen(0)


def test_a_clock_that_was_set_back_and_is_set_right_begins_anew(world: World) -> None:
    """As of a server that starts with a clock behind: leases taken meanwhile end early."""
    world.seen(0)
    world.seen(60)

    world.ahead_ms -= 60_000
    assert 0 == world.seen(1)
    world.ahead_ms += 60_000

    assert LEASE_MS == world.seen(1)


def test_a_reply_that_was_long_under_way_is_no_clock_that_was_set_back(world: World) -> None:
    world.seen(0)
    world.seen(60, delayed_s=30)

    assert 0 == world.seen(1)


def test_a_slow_reply_hides_no_leap(world: World) -> None:
    """What it hides has passed while the reply was under way."""
    world.seen(0)
    world.seen(60)

    world.ahead_ms += 5_000

    assert 0 == world.seen(0, delayed_s=5)
    assert LEASE_MS == world.seen(1), "and is seen by the next"


def test_each_partition_has_a_server_of_its_own(world: World) -> None:
    world.seen(0)
    world.seen(60)

    assert LEASE_MS == world.seen(0, partition=1)
    assert 0 == world.clocks.others_end_in_ms(0)
