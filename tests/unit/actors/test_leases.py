"""Leases as a process sees them: its own deadline, renewal, cancellation, loss (no server)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from mulligan.actors.leases import Lease, LeaseKeeper
from mulligan.errors import StoreUnavailable
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, AsFact, AsNew, Claimed, Held, Move, Renewed
from mulligan.events.tasks import run_task

LEASE_MS, MARGIN_MS = 10_000, 1_000


class World:
    """A store, a keeper, and one clock for both; the store can be away."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.store = AwayStore(lambda: self.now_ms)
        self.keeper = LeaseKeeper(
            self.store, lease_ms=LEASE_MS, margin_ms=MARGIN_MS, clock=lambda: self.now_ms / 1_000
        )

    def request(self, run: str) -> None:
        self.store.append(
            Append(
                run=run,
                op=f"op-{run}",
                writer=AsNew("digest"),
                events=(NewEvent(RunStarted()),),
                moves=(Move(run_task(run), "ready"),),
            )
        )

    def claim(self, run: str, token: str = "token") -> Lease:
        sent_s = self.keeper.now_s()
        claimed = self.store.claim(run, run_task(run), token, LEASE_MS)
        assert isinstance(claimed, Claimed)
        held = Held(run, claimed.task, token)
        return self.keeper.hold(held, claimed.inbox, claimed.phase, sent_s)


class AwayStore(MemoryEventStore):
    away = False
    renewals = 0

    def renew(self, held: Sequence[Held], lease_ms: int) -> Mapping[str, Renewed | None]:
        self.renewals += 1
        if self.away:
            raise StoreUnavailable("away")
        return super().renew(held, lease_ms)


@pytest.fixture
def world() -> World:
    world = World()
    world.request("one")
    return world


@pytest.fixture
def started(world: World) -> Iterator[World]:
    world.keeper.start()
    yield world
    world.keeper.end()


def cancel(world: World, run: str) -> None:
    world.store.append(
        Append(
            run=run,
            op="cancel",
            writer=AsFact("cancel"),
            events=(NewEvent(RunStarted()),),
            moves=(Move(run_task(run), "wake"),),
            phase="cancelling",
        )
    )


def test_the_deadline_is_a_margin_before_the_servers(world: World) -> None:
    lease = world.claim("one")

    world.now_ms += LEASE_MS - MARGIN_MS - 1
    assert lease.may_start()
    world.now_ms += 1
    assert not lease.may_start()
    assert lease.lost


def test_the_deadline_counts_from_before_the_claim_was_sent(world: World) -> None:
    """The answer took as long as the lease: nothing may be started under it."""
    sent_s = world.keeper.now_s()
    world.now_ms += LEASE_MS

    lease = world.keeper.hold(Held("one", "one/", "token"), 0, "open", sent_s)

    assert not lease.may_start()


def test_a_renewal_moves_the_deadline(world: World) -> None:
    lease = world.claim("one")
    world.now_ms += 8_000

    world.keeper.renew_all()
    world.now_ms += 8_000

    assert lease.may_start()


def test_all_leases_are_renewed_in_one_call(world: World) -> None:
    for run in ("two", "three"):
        world.request(run)
    for run in ("one", "two", "three"):
        world.claim(run)

    world.keeper.renew_all()

    assert world.store.renewals == 1


def test_a_lease_let_go_is_not_renewed(world: World) -> None:
    with world.claim("one"):
        pass

    world.keeper.renew_all()

    assert world.store.renewals == 0


def test_wake_ups_and_cancellation_come_with_a_renewal(world: World) -> None:
    lease = world.claim("one")
    stopped: list[str] = []
    lease.on_stop(lambda: stopped.append("stopped"))
    world.keeper.renew_all()
    assert stopped == []

    cancel(world, "one")
    world.keeper.renew_all()
    world.keeper.renew_all()

    assert lease.inbox == 1
    assert lease.phase == "cancelling"
    assert stopped == ["stopped"]
    assert not lease.lost


def test_what_starts_after_the_stop_is_stopped_at_once(world: World) -> None:
    lease = world.claim("one")
    cancel(world, "one")
    world.keeper.renew_all()
    stopped: list[str] = []

    lease.on_stop(lambda: stopped.append("stopped"))

    assert stopped == ["stopped"]


def test_one_callback_that_fails_does_not_keep_the_next_from_being_called(world: World) -> None:
    lease = world.claim("one")
    stopped: list[str] = []

    def fail() -> None:
        raise ValueError("on purpose")

    lease.on_stop(fail)
    lease.on_stop(lambda: stopped.append("stopped"))
    lease.stop()

    assert stopped == ["stopped"]


def test_a_lease_that_another_took_is_lost(world: World) -> None:
    lease = world.claim("one")
    stopped: list[str] = []
    lease.on_stop(lambda: stopped.append("stopped"))
    world.now_ms += LEASE_MS + 1
    assert isinstance(world.store.claim("one", "one/", "another", LEASE_MS), Claimed)

    world.keeper.renew_all()

    assert lease.lost
    assert stopped == ["stopped"]
    assert world.keeper.held() == []


def test_a_lease_past_its_end_that_nobody_took_goes_on(world: World) -> None:
    """A worker that was paused, and comes back before anyone took its task."""
    lease = world.claim("one")
    world.now_ms += LEASE_MS + 1
    assert lease.lost

    world.keeper.renew_all()

    assert not lease.lost
    assert lease.may_start()


def test_a_silent_server_costs_a_lease_when_its_time_is_over(world: World) -> None:
    lease = world.claim("one")
    stopped: list[str] = []
    lease.on_stop(lambda: stopped.append("stopped"))
    world.store.away = True

    world.now_ms += 5_000
    world.keeper.renew_all()
    assert not lease.lost
    world.now_ms += 5_000
    world.keeper.renew_all()

    assert lease.lost
    assert stopped == ["stopped"]
    assert world.keeper.held() == []


def test_a_task_claimed_anew_by_this_process_ends_the_older_lease(world: World) -> None:
    older = world.claim("one")
    stopped: list[str] = []
    older.on_stop(lambda: stopped.append("stopped"))
    world.now_ms += LEASE_MS + 1

    newer = world.claim("one", token="newer")
    world.keeper.renew_all()

    assert older.lost
    assert stopped == ["stopped"]
    assert not newer.lost
    world.keeper.let_go(older)
    assert world.keeper.held() == [newer]


def test_renewing_one_now_tells_whether_it_may_go_on(world: World) -> None:
    lease = world.claim("one")
    assert world.keeper.renew(lease)

    world.now_ms += LEASE_MS + 1
    world.store.claim("one", "one/", "another", LEASE_MS)

    assert not world.keeper.renew(lease)


def test_what_is_given_back_can_be_taken_at_once(world: World) -> None:
    lease = world.claim("one")

    world.keeper.give_back_all()

    assert lease.lost
    again = world.store.claim("one", "one/", "another", LEASE_MS)
    assert isinstance(again, Claimed)
    assert again.claims == 0


def test_the_thread_renews_by_itself_and_survives_errors(started: World) -> None:
    renewed = threading.Semaphore(0)
    answer = started.store.renew

    def renew(held: Sequence[Held], lease_ms: int) -> Mapping[str, Renewed | None]:
        renewed.release()
        if started.store.renewals == 0:
            started.store.renewals += 1
            raise ValueError("a bug of ours")
        return answer(held, lease_ms)

    started.store.renew = renew  # type: ignore[method-assign]
    started.claim("one")

    assert renewed.acquire(timeout=5)
    assert renewed.acquire(timeout=5)
