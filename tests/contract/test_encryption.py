"""What any store does with payload keys, beside all that it does without (docs/encryption.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from mulligan.errors import EventUnreadable, PayloadKeyMissing, RunForgotten
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunCompleted, RunFailed, RunStarted
from mulligan.events.key_rotation import forget, rotate
from mulligan.events.keys import Keys
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.payload import Payload
from mulligan.events.payload_keys import PayloadKeys, new_key, payload_keys
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, AsFact, AsNew, EventStore
from mulligan.testing.server import ValkeyServer

OLD, NEW = new_key("old"), new_key("new")
LARGE = "large " * 2_000


def keys_of(text: str) -> PayloadKeys:
    keys = payload_keys(text)
    assert keys is not None
    return keys


class Memory:
    """Stores of several processes, which share what is kept."""

    def __init__(self) -> None:
        self._first: MemoryEventStore | None = None

    def store(self, keys: str | None) -> EventStore:
        store = MemoryEventStore(lambda: 1_000, payload_keys=payload_keys(keys))
        if self._first is None:
            self._first = store
        for name in ("_runs", "_data_keys", "_payload_keys", "_snapshots", "_sealed", "_rows"):
            setattr(store, name, getattr(self._first, name))
        store._feeds = self._first._feeds
        store.check()
        return store

    def lose_data_key(self, run: str) -> None:
        assert self._first is not None
        del self._first._data_keys[run]


class OnServer:
    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        self.stores: list[RedisEventStore] = []

    def store(self, keys: str | None) -> EventStore:
        store = RedisEventStore(self._server.url, payload_keys=payload_keys(keys))
        self.stores.append(store)
        store.check()
        return store

    def lose_data_key(self, run: str) -> None:
        with self._server.client() as client:
            client.hdel(Keys(0).data_keys, run)

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture(params=["memory", pytest.param("valkey", marks=pytest.mark.server)])
def place(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield Memory()
        return
    server = request.getfixturevalue("server")
    with server.client() as client:
        client.flushall()
    with closing(OnServer(server)) as place:
        yield place


def begun(store: EventStore, run: str = "run") -> None:
    store.append(
        Append(run=run, op=f"begin-{run}", writer=AsNew("digest"), events=(NewEvent(RunStarted()),))
    )


def added(store: EventStore, op: str, text: str = LARGE, run: str = "run") -> None:
    store.append(
        Append(
            run=run,
            op=op,
            writer=AsFact(op),
            events=(NewEvent(RunCompleted(output=Payload.of(text))),),
            phase="closed",
        )
    )


def test_two_that_make_a_runs_key_at_once_agree(place: Any) -> None:
    """Both found a run without a key; the second to append takes the first's."""
    begun(place.store(None))
    one, two = place.store(NEW), place.store(NEW)
    own = two.vault._minted("run", keys_of(NEW))
    stored = two.vault._stored
    two.vault._stored = lambda runs: [None] * len(runs)
    held = two.vault.for_append(
        Append(run="run", op="x", writer=AsFact("x"), events=(NewEvent(RunStarted()),))
    )
    assert held is not None
    assert held.key.id != own.key.id
    added(one, "one")
    two.vault.stands(held)
    two.vault._stored = stored

    two.append(
        Append(
            run="run",
            op="two",
            writer=AsFact("two", receipt=True),
            events=(NewEvent(RunStarted()),),
        )
    )

    assert [event.type for event in place.store(NEW).read("run")] == [
        "RunStarted",
        "RunCompleted",
        "RunStarted",
    ]


def test_a_key_that_the_server_lost_comes_back_with_the_next_append(place: Any) -> None:
    store = place.store(NEW)
    begun(store)
    place.lose_data_key("run")

    added(store, "more")

    fresh = place.store(NEW)
    assert [event.type for event in fresh.read("run")] == ["RunStarted", "RunCompleted"]


def test_who_lacks_the_key_is_told_its_name_and_of_which_event(place: Any) -> None:
    store = place.store(NEW)
    begun(store)
    store.keep_snapshot("run", 1, b"state", gap_events=1, ttl_ms=10_000)
    store.commit_rows("list", 0, expected="0", checkpoint="1-0", rows={"run": b"{}"})
    large = Payload.of(LARGE)
    added(store, "more")

    for keyless in (place.store(None), place.store(OLD)):
        with pytest.raises(
            PayloadKeyMissing, match=r"event 1: .*payload key new is not here"
        ) as told:
            keyless.read("run")
        assert (told.value.key, told.value.version) == ("new", 1)
        with pytest.raises(PayloadKeyMissing):
            keyless.payload("run", large.digest)
        assert keyless.snapshot("run") is None
        assert keyless.rows("list", 0) == {"run": b""}
        assert [one.type for one in keyless.outlines("run")] == ["RunStarted", "RunCompleted"]
        assert all(one.encrypted for one in keyless.outlines("run"))
    assert place.store(f"{OLD},{NEW}").payload("run", large.digest) == store.payload(
        "run", large.digest
    )


def test_rotation_moves_what_it_can_and_says_what_it_left(place: Any) -> None:
    begun(place.store(OLD), "a")
    begun(place.store(OLD), "b")
    lost = new_key("lost")
    begun(place.store(lost), "c")

    done = rotate(place.store(f"{NEW},{OLD}"), keys_of(f"{NEW},{OLD}"))

    assert (done.moved, done.left) == (2, {"c": "[encrypted: key lost missing]"})
    assert done.free == ["old"]
    assert place.store(NEW).payload_keys_in_use().keys() == {"lost", "new"}
    assert rotate(place.store(f"{NEW},{OLD}"), keys_of(f"{NEW},{OLD}")).moved == 0
    assert place.store(NEW).read("a")[0].data == RunStarted()


def test_a_forgotten_run_is_gone_and_takes_nothing_more(place: Any) -> None:
    store = place.store(NEW)
    begun(store)
    added(store, "end")

    assert forget(store, "run") == 0
    assert forget(store, "run") == 0, "again"

    for reader in (store, place.store(NEW), place.store(None)):
        with pytest.raises(RunForgotten):
            reader.read("run")
    late = Append(
        run="run",
        op="late",
        writer=AsFact("late", receipt=True),
        events=(NewEvent(RunFailed(code="x", message="y")),),
    )
    with pytest.raises(EventUnreadable, match="was forgotten"):
        store.append(late)
