"""
The implementations of `EventStore`, and of `Slots`, that the suites run on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing
from typing import Protocol

import pytest
from redis import Redis

from mulligan.events.keys import Keys
from mulligan.events.memory_slots import MemorySlots
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.payload_keys import PayloadKeys, new_key, payload_keys
from mulligan.events.redis_connection import connect
from mulligan.events.redis_slots import RedisSlots
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.slots import Slots
from mulligan.events.store import EventStore
from mulligan.testing.passing_time import pass_time


class Subject(Protocol):
    """A store under test, and what a test may do to it behind its back."""

    store: EventStore
    slots: Slots

    def pass_time(self, ms: int) -> None:
        """As if `ms` milliseconds went by."""

    def archive(self, run: str) -> None:
        """Mark a run as archived, as the archive's script does."""

    def write_raw(self, run: str, raw: bytes) -> None:
        """Add something to the run's stream that an append would not have written."""

    def lose_due_entry(self, task: str) -> None:
        """Remove a task's due entry."""

    def lose_task(self, task: str) -> None:
        """Remove a task as a whole."""

    def set_back(self, run: str, version: int) -> None:
        """Forget what came after `version`, as a server restored from an older file has."""

    def spoil_payload(self, run: str, digest: str) -> None:
        """Write something else where a large value was."""


class InMemory:
    def __init__(self, keys: PayloadKeys | None = None) -> None:
        self.now_ms = 1_000_000
        self.store = MemoryEventStore(lambda: self.now_ms, payload_keys=keys)
        self.slots = MemorySlots(lambda: self.now_ms)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    def archive(self, run: str) -> None:
        self.store._runs[run].phase = "archived"

    def write_raw(self, run: str, raw: bytes) -> None:
        self.store._runs[run].events.append((self.now_ms, raw))

    def lose_due_entry(self, task: str) -> None:
        pytest.skip("a task holds its own due moment here")

    def lose_task(self, task: str) -> None:
        del self.store._tasks[task]

    def set_back(self, run: str, version: int) -> None:
        del self.store._runs[run].events[version:]

    def spoil_payload(self, run: str, digest: str) -> None:
        [name] = self.store.vault.names_of(run, [digest])[-1:]
        self.store._runs[run].payloads.pop(name)


class OnRedis:
    """By URL over connections of our own, without one over the client."""

    def __init__(
        self,
        client: Redis,
        *,
        url: str | None = None,
        script_heads: bool = True,
        keys: PayloadKeys | None = None,
    ) -> None:
        self.client = client
        self.keys = Keys(0)
        self.store = RedisEventStore(url or client, script_heads=script_heads, payload_keys=keys)
        self.slots = RedisSlots(url or client, script_heads=script_heads)

    def close(self) -> None:
        self.store.close()
        self.slots.close()

    def pass_time(self, ms: int) -> None:
        pass_time(self.client, ms)

    def archive(self, run: str) -> None:
        row = self.client.hget(self.keys.runs, run)
        version, _, rest = row.split(b"|", 2)
        self.client.hset(self.keys.runs, run, b"|".join((version, b"archived", rest)))

    def write_raw(self, run: str, raw: bytes) -> None:
        version = self.store.row(run).version + 1
        self.client.xadd(self.keys.run(run), {"t": 1, "d": raw}, id=f"{version}-0")

    def lose_due_entry(self, task: str) -> None:
        self.client.zrem(self.keys.due, task)

    def lose_task(self, task: str) -> None:
        self.client.zrem(self.keys.due, task)
        self.client.hdel(self.keys.tasks, task)

    def set_back(self, run: str, version: int) -> None:
        for later in range(version + 1, self.store.row(run).version + 1):
            self.client.xdel(self.keys.run(run), f"{later}-0")
        _, _, rest = self.client.hget(self.keys.runs, run).partition(b"|")
        self.client.hset(self.keys.runs, run, b"%d|%b" % (version, rest))

    def spoil_payload(self, run: str, digest: str) -> None:
        [name] = self.store.vault.names_of(run, [digest])[-1:]
        self.client.set(self.keys.payload(run, name), b'"something else"')


@pytest.fixture(
    params=[
        "memory",
        "memory, encrypted",
        pytest.param("valkey", marks=pytest.mark.server),
        pytest.param("valkey, encrypted", marks=pytest.mark.server),
        pytest.param("redis", marks=pytest.mark.server),
        pytest.param("cluster", marks=pytest.mark.server),
        "fakeredis",
    ]
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    kind, _, encrypted = request.param.partition(", ")
    if encrypted and "slots" in request.fixturenames:
        pytest.skip("slots hold nothing that runs contain")
    keys = payload_keys(new_key("some")) if encrypted else None
    if kind == "memory":
        yield InMemory(keys)
    elif kind in ("valkey", "redis"):
        name = "server" if kind == "valkey" else "redis_server"
        server = request.getfixturevalue(name)
        with server.client() as client:
            client.flushall()
            with closing(OnRedis(client, url=server.url, keys=keys)) as subject:
                yield subject
    elif kind == "cluster":
        cluster = request.getfixturevalue("cluster")
        cluster.flush()
        client = connect(cluster.url)
        yield OnRedis(client)
        client.close()
    else:
        yield OnRedis(_fake_client(), script_heads=False)


def row_digest(log: EventStore, run: str, digest: str) -> str:
    """What a run's row tells of its request: with payload keys nothing that could be guessed."""
    key = log.vault.key_of(run)
    return digest if key is None else key.name(digest)


@pytest.fixture
def log(subject: Subject) -> EventStore:
    return subject.store


def _fake_client() -> Redis:
    import fakeredis

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own
        return fakeredis.FakeRedis(server=fakeredis.FakeServer())
