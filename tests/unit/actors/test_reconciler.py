"""What a sweep sends, when it waits, and what it does without a server (no server here)."""

from __future__ import annotations

import threading

import pytest
from dramatiq.errors import BrokerConnectionError

from mulligan.actors.reconciler import (
    FIRST_BACKOFF_S,
    LAST_BACKOFF_S,
    LONGEST_SLEEP_S,
    QUIET_LIMIT,
    WINDOW,
    Reconciler,
)
from mulligan.errors import StoreUnavailable
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, AsNew, Claimed, Move, Swept
from mulligan.events.tasks import run_task


class SweptStore(MemoryEventStore):
    away = False

    def sweep(self, *, limit: int = 500, resend_ms: int = 2_000) -> Swept:
        if self.away:
            raise StoreUnavailable("away")
        return super().sweep(limit=limit, resend_ms=resend_ms)


class World:
    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.store = SweptStore(lambda: self.now_ms)
        self.sent: list[str] = []
        self.waiting = 0
        self.reconciler = Reconciler(self.store, self.sent.append, lambda: self.waiting)

    def request(self, *runs: str, delay_ms: int = 0) -> None:
        for run in runs:
            self.store.append(
                Append(
                    run=run,
                    op=f"op-{run}",
                    writer=AsNew("digest"),
                    events=(NewEvent(RunStarted()),),
                    moves=(Move(run_task(run), "ready", delay_ms),),
                )
            )


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_due_is_sent_once_per_resend_time(world: World) -> None:
    world.request("one", "two")

    world.reconciler.sweep_once()
    world.reconciler.sweep_once()
    assert sorted(world.sent) == ["one/", "two/"]

    world.now_ms += 2_001
    world.reconciler.sweep_once()
    assert sorted(world.sent) == ["one/", "one/", "two/", "two/"]


def test_the_task_of_a_dead_worker_is_sent_when_its_lease_is_over(world: World) -> None:
    world.request("one")
    assert isinstance(world.store.claim("one", "one/", "token", 10_000), Claimed)

    world.now_ms += 9_999
    world.reconciler.sweep_once()
    assert world.sent == []
    world.now_ms += 2
    world.reconciler.sweep_once()
    assert world.sent == ["one/"]


def test_it_sleeps_until_the_next_is_due_and_not_much_longer(world: World) -> None:
    assert world.reconciler.sweep_once() == LONGEST_SLEEP_S

    world.request("soon", delay_ms=100)
    assert world.reconciler.sweep_once() == pytest.approx(0.1)

    world.now_ms += 100
    world.reconciler.sweep_once()
    assert world.reconciler.sweep_once() == LONGEST_SLEEP_S


def test_a_full_queue_gets_nothing_more(world: World) -> None:
    world.request("one")
    world.waiting = 1_000

    assert world.reconciler.sweep_once() == LONGEST_SLEEP_S
    assert world.sent == []

    world.waiting = 999
    world.reconciler.sweep_once()
    assert world.sent == ["one/"]


def test_it_sends_no_more_than_the_queue_has_room_for(world: World) -> None:
    world.request(*(f"run{number}" for number in range(20)))
    world.waiting = 993

    world.reconciler.sweep_once()

    assert len(world.sent) == 7


def test_it_goes_on_at_once_while_there_is_more(world: World) -> None:
    world.request(*(f"run{number}" for number in range(501)))

    assert world.reconciler.sweep_once() == 0.0
    world.reconciler.sweep_once()

    assert len(set(world.sent)) == 501


def test_without_a_server_it_backs_off_and_comes_back(world: World) -> None:
    world.request("one")
    world.store.away = True

    sleeps = [world.reconciler.sweep_once() for _ in range(10)]
    world.store.away = False
    world.reconciler.sweep_once()

    assert sleeps[0] == FIRST_BACKOFF_S
    assert sleeps == sorted(sleeps)
    assert sleeps[-1] == LAST_BACKOFF_S
    assert world.sent == ["one/"]


def test_without_a_queue_nothing_is_taken_from_the_due_set(world: World) -> None:
    def gone() -> int:
        raise BrokerConnectionError("gone")

    world.request("one")
    Reconciler(world.store, world.sent.append, gone).sweep_once()

    world.reconciler.sweep_once()
    assert world.sent == ["one/"]


def test_the_thread_survives_an_error_of_ours(world: World) -> None:
    sent = threading.Semaphore(0)

    def send(task: str) -> None:
        sent.release()
        raise ValueError("a bug of ours")

    world.request("one")
    reconciler = Reconciler(world.store, send, lambda: 0)
    reconciler.start()
    try:
        assert sent.acquire(timeout=5)
        world.now_ms += 2_001
        assert sent.acquire(timeout=5)
    finally:
        reconciler.end()


def test_an_idle_one_asks_the_queue_nothing_and_soon_does_when_much_is_due(world: World) -> None:
    looks = []

    def waiting() -> int:
        looks.append(world.waiting)
        return world.waiting

    reconciler = Reconciler(world.store, world.sent.append, waiting)
    for _ in range(5):
        reconciler.sweep_once()
    assert len(looks) == 1, "the first sweep knows nothing"

    world.waiting = WINDOW
    world.request(*(f"run{number}" for number in range(2 * QUIET_LIMIT)))
    for _ in range(3):
        reconciler.sweep_once()

    assert len(world.sent) == QUIET_LIMIT, "the queue is full"
