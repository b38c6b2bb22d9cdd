"""Who lives, who carries which code, and what a worker's rounds repair (no server)."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mulligan.actors.roster import TTL_MS, Roster, live_workers
from mulligan.actors.rounds import Rounds
from mulligan.errors import StoreUnavailable
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, AsNew, Move

CODE = "steps:join@abc"


class World:
    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.store = MemoryEventStore(lambda: self.now_ms)


@pytest.fixture
def world() -> World:
    return World()


def test_alone_nobody_else_carries_it(world: World) -> None:
    one = Roster(world.store)
    one.note(CODE, here=False)
    assert not one.others_may_carry(CODE)


def test_another_may_until_it_has_looked(world: World) -> None:
    one, two = Roster(world.store), Roster(world.store)
    two.announce()
    one.note(CODE, here=False)
    assert one.others_may_carry(CODE)

    two.note(CODE, here=True)
    two.announce()
    assert one.others_may_carry(CODE)

    two.note(CODE, here=False)
    two.announce()
    assert not one.others_may_carry(CODE)


def test_one_that_died_does_not_count(world: World) -> None:
    one, two = Roster(world.store), Roster(world.store)
    two.announce()
    world.now_ms += TTL_MS + 1
    assert not one.others_may_carry(CODE)


def test_a_card_says_what_is_here_and_what_is_not(world: World) -> None:
    roster = Roster(world.store, app="shop:app")
    roster.note(CODE, here=False)
    roster.note("steps:split@def", here=True)
    roster.announce()

    (card,) = live_workers(world.store)
    assert (card.app, card.carries, card.lacks) == ("shop:app", ("steps:split@def",), (CODE,))

    roster.note(CODE, here=True)
    assert roster.card().lacks == ()


@pytest.fixture
def stranded(world: World) -> World:
    """A run whose own task is gone, as only a fault could leave it."""
    world.store.append(
        Append(
            run="run",
            op="op",
            writer=AsNew("digest"),
            events=(NewEvent(RunStarted()),),
            moves=(Move("run/", "ready"),),
        )
    )
    del world.store._tasks["run/"]
    return world


def test_rounds_announce_and_audit_and_say_what_they_repaired(stranded: World) -> None:
    rounds = Rounds(stranded.store, Roster(stranded.store), audit_s=0.0)
    with capture_logs() as logs:
        rounds.make_once()

    assert len(live_workers(stranded.store)) == 1
    assert stranded.store.sweep().tasks == ("run/",)
    assert [(one["event"], one["tasks"]) for one in logs] == [("audit_repaired", ["run/"])]


def test_rounds_do_not_audit_before_it_is_time(stranded: World) -> None:
    Rounds(stranded.store, Roster(stranded.store), audit_s=3_600).make_once()
    assert stranded.store.sweep().tasks == ()


def test_a_store_that_is_away_costs_a_round_and_no_more(world: World) -> None:
    class Away(MemoryEventStore):
        def announce(self, worker: str, card: bytes, ttl_ms: int) -> dict[str, bytes]:
            raise StoreUnavailable("away")

    store = Away(lambda: 0)
    Rounds(store, Roster(store), audit_s=0.0).make_once()


def test_a_worker_that_ends_says_so(world: World) -> None:
    rounds = Rounds(world.store, Roster(world.store))
    rounds.make_once()
    rounds.end()
    assert live_workers(world.store) == []
