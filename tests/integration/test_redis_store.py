"""
What only a real server shows: full memory, lost servers, set-up, blocking, partitions.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from queue import Queue

import pytest
from redis import Redis

from mulligan.errors import EnvironmentUnfit, StoreFull, StoreUnavailable, StoreUnfit
from mulligan.events import redis_connection, redis_fitness
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import RunRequested, RunResumed, RunStarted, ToolStarted, ToolSucceeded
from mulligan.events.keys import Keys, partition_of
from mulligan.events.payload import Payload
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.sealed import Sealed
from mulligan.events.store import (
    Append,
    AsFact,
    AsNew,
    ByTask,
    ByVersion,
    Claimed,
    Held,
    Move,
    Renewed,
)
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server
STARTED = (NewEvent(RunStarted()),)


def new(store: RedisEventStore, run: str = "r1") -> None:
    store.append(
        Append(
            run=run,
            op=f"new-{run}",
            writer=AsNew("d"),
            events=STARTED,
            moves=(Move(f"{run}/", "ready"),),
        )
    )


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """A server that the test may stop, kill or fill."""
    with ValkeyServer(appendonly="yes", appendfsync="always") as server:
        yield server


# --- Scripts -------------------------------------------------------------------------------------


def test_scripts_that_the_server_forgot_are_sent_again(
    store: RedisEventStore, server: ValkeyServer
) -> None:
    new(store)
    with server.client() as client:
        client.script_flush()

    new(store, "r2")
    assert isinstance(store.claim("r2", "r2/", "t", 1_000), Claimed)


def test_a_call_that_makes_no_sense_writes_nothing(
    store: RedisEventStore, server: ValkeyServer
) -> None:
    """All checks come before the first write: the script itself refuses what a client let pass."""
    new(store)
    keys = Keys(0)
    base = ["r1", "op", "version", "1", "", "", 0, ""]
    none = ["", "", "", ""]
    calls = [
        [*base, 0, 0, 0, *none],
        [*base, 0, 0, 0],
        [*base, 1, 0, 0, *none],
        ["r3", "op", "new", "d", "", "", 0, "", 1, 0, 0, *none, "r3/", "ready", 0],
        [*base, 1, 0, 0, *none, "r1/", "explode", 0, "event"],
        [*base, 1, 0, 0, *none, "r1/", "end", 0, "event"],
        [*base, 1, 0, 0, *none, "r1/", "wake", "soon", "event"],
        [*base, 1, 0, 0, *none, "r1/", "wake", "nan", "event"],
        [*base, 1, 0, 0, *none, "r1/", "wake", -1, "event"],
        [*base, 1, 0, 0, "", "r1/n:a", "t", 1_000, "r1/", "wake", 0, "event"],
        [*base, 1, 0, 0, "", "r1/", "", 1_000, "r1/", "wake", 0, "event"],
        [*base, 1, 0, 0, "", "r1/", "t", "soon", "r1/", "wake", 0, "event"],
        ["r1", "op", "nobody", "1", "", "", 0, "", 0, 0, 0, *none, "event"],
        [*base, 0, 0, 0, *none, *["event"] * 1_001],
        ["r3", "op", "new", "d", "", "", 0, "", 0, 0, 0, *none, *["event"] * 10_001],
    ]
    with server.client() as client:
        for args in calls:
            with pytest.raises(Exception, match="BADCALL"):
                store._scripts.call(
                    "append", [keys.run("r1"), keys.feed, keys.due, keys.tasks, keys.runs], args
                )
        for ttl in ("soon", 0):
            beside = [
                keys.run("r1"),
                keys.feed,
                keys.due,
                keys.tasks,
                keys.runs,
                keys.sealed("r1/"),
            ]
            with pytest.raises(Exception, match="BADCALL"):
                store._scripts.call("append", beside, [*base, 0, 1, 0, *none, ttl, "text", "event"])
        assert not client.exists(keys.sealed("r1/"))
        assert 1 == client.xlen(keys.run("r1")) == client.xlen(keys.feed)
    assert isinstance(store.claim("r1", "r1/", "t", 1_000), Claimed)


def test_every_key_of_an_append_is_in_the_runs_slot(
    store: RedisEventStore, server: ValkeyServer
) -> None:
    """The whole log would work on one slot of a cluster; only the count of partitions is apart."""
    fact = RunRequested(
        workflow="w", workflow_version=1, digest="d", plan={}, input=Payload.of("x" * 9_000)
    )
    store.append(
        Append(
            run="r1",
            op="o",
            writer=AsNew("d"),
            events=(NewEvent(fact),),
            moves=(Move("r1/", "ready"),),
            sealed=(Sealed("r1/o:a.1", b"text", 60_000),),
        )
    )
    with server.client() as client:
        names = {key.decode() for key in client.scan_iter()}

    assert names - {"mulligan:partitions"} == {n for n in names if n.startswith("mulligan:{0}:")}
    assert 8 == len(names)


# --- Memory --------------------------------------------------------------------------------------


def fill(client: Redis, share: float) -> None:
    """Set the limit so that `share` of it is used."""
    used = client.info("memory")["used_memory"]
    client.config_set("maxmemory", int(used / share))


def test_a_full_server_takes_outcomes_but_no_new_work(own_server: ValkeyServer) -> None:
    """A receipt that found no room would leave a done effect unknown."""
    with own_server.client() as client:
        store = RedisEventStore(client)
        new(store)
        store.claim("r1", "r1/", "t1", 10_000)
        own = ByTask("r1/", "t1", "", 0)
        fill(client, 1.5)

        with pytest.raises(StoreFull, match="maxmemory"):
            new(store, "r2")
        intent = ByTask("r1/", "t1", "", 0, intent=True)
        begins = (NewEvent(ToolStarted(call_id="c", execution=1)),)
        with pytest.raises(StoreFull):
            store.append(Append(run="r1", op="i", writer=intent, events=begins))
        person = (NewEvent(RunResumed()),)
        with pytest.raises(StoreFull, match="out of memory"):
            store.append(Append(run="r1", op="p", writer=ByVersion(1), events=person))
        assert 1 == len(store.read("r1"))

        large = Payload.of("x" * 20_000)
        came = (NewEvent(ToolSucceeded(call_id="c", result=large)),)
        assert 2 == store.append(Append(run="r1", op="o1", writer=own, events=came)).version
        receipt = Append(run="r1", op="o2", writer=AsFact("c", receipt=True), events=came)
        assert 3 == store.append(receipt).version
        assert large.size == len(store.payload("r1", large.digest))
        assert {"r1/": Renewed(0, "open")} == store.renew([Held("r1", "r1/", "t1")], 10_000)
        assert store.give_back(Held("r1", "r1/", "t1"))
        assert ("r1/",) == store.sweep().tasks
        assert isinstance(store.claim("r1", "r1/", "t2", 10_000), Claimed)


def test_above_nine_tenths_no_work_begins(
    own_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_fitness, "LOOK_EVERY_S", 0)
    with own_server.client() as client:
        store = RedisEventStore(client)
        new(store)
        fill(client, 0.95)

        with pytest.raises(StoreFull, match=r"9[0-9]% of its maxmemory"):
            new(store, "r2")
        fact = Append(run="r1", op="f", writer=AsFact("k"), events=STARTED)
        assert 2 == store.append(fact).version
        client.config_set("maxmemory", 0)
        new(store, "r2")


# --- A server that is away -----------------------------------------------------------------------


def test_no_server_is_told_with_its_place(own_server: ValkeyServer) -> None:
    store = RedisEventStore(own_server.url)
    own_server.stop()

    with pytest.raises(StoreUnavailable, match=f"unix:{own_server.socket}"):
        store.row("r1")


def test_a_server_that_was_killed_has_what_it_acknowledged(own_server: ValkeyServer) -> None:
    """
    Under `appendfsync always`: with `everysec` a write waits for a sync that is under way, and a
    kill takes it along. And the same store goes on, without a new one being made.
    """
    store = RedisEventStore(own_server.url)
    new(store)
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        new(store, "r2")

    own_server.start()

    assert 1 == len(store.read("r1"))
    new(store, "r2")
    assert 1 == len(store.read("r2"))


def test_an_append_without_an_answer_is_repeated_safely(
    own_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server hangs, does it later all the same, and knows the repeat."""
    monkeypatch.setattr(redis_connection, "ANSWER_TIMEOUT_S", 0.1)
    store = RedisEventStore(own_server.url)
    new(store)
    fact = Append(run="r1", op="f", writer=AsFact("k"), events=STARTED)
    store.append(Append(run="r1", op="warm", writer=AsFact("w"), events=STARTED))
    own_server.pause()
    with pytest.raises(StoreUnavailable, match="may have done"):
        store.append(fact)
    own_server.resume()

    store.append(fact)

    assert 3 == len(store.read("r1"))


def test_a_read_only_replica_is_told(own_server: ValkeyServer) -> None:
    store = RedisEventStore(own_server.url)
    new(store)
    with own_server.client() as client:
        client.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreUnavailable, match="read-only replica"):
            new(store, "r2")


# --- Set-up --------------------------------------------------------------------------------------


def test_a_server_that_evicts_is_refused(own_server: ValkeyServer) -> None:
    store = RedisEventStore(own_server.url)
    with own_server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")

        with pytest.raises(StoreUnfit, match=r"allkeys-lru.*noeviction"):
            store.check()
        client.config_set("maxmemory-policy", "noeviction")
    store.check()


def test_an_old_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Redis()
    monkeypatch.setattr(client, "info", lambda: {"redis_version": "6.2.14"})

    with pytest.raises(StoreUnfit, match=r"6\.2\.14.*7\.0"):
        redis_fitness.check_server(client, "here")


def test_what_a_restart_would_lose_is_told(
    store: RedisEventStore, own_server: ValkeyServer
) -> None:
    assert any("no append-only file" in warning for warning in store.check())
    with own_server.client() as client:
        client.config_set("maxmemory", "100mb")
        client.config_set("appendfsync", "everysec")
        told = RedisEventStore(client).check()
        assert ["last one or two seconds" in warning for warning in told] == [True]
        client.config_set("appendfsync", "always")
        assert [] == RedisEventStore(client).check()


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(StoreUnfit, match="redis://host:6379"):
        RedisEventStore("localhost:6379")


def test_a_client_that_decodes_is_refused(server: ValkeyServer) -> None:
    with (
        Redis(unix_socket_path=str(server.socket), decode_responses=True) as client,
        pytest.raises(StoreUnfit, match="decodes"),
    ):
        RedisEventStore(client)


def test_a_password_shows_in_no_message(own_server: ValkeyServer) -> None:
    with own_server.client() as client:
        client.config_set("requirepass", "hunter2")
    store = RedisEventStore(f"unix://:wrong-secret@{own_server.socket}?db=0")

    with pytest.raises((StoreUnfit, StoreUnavailable)) as caught:
        store.row("r1")
    assert "wrong-secret" not in str(caught.value)
    assert "refuses our user or password" in str(caught.value)


# --- Partitions ----------------------------------------------------------------------------------


def test_the_number_of_partitions_is_fixed_with_first_use(
    store: RedisEventStore, server: ValkeyServer
) -> None:
    assert 4 == RedisEventStore(server.url, partitions=4).partitions()

    assert 4 == store.partitions()
    with pytest.raises(StoreUnfit, match="4 partitions, not 2"):
        RedisEventStore(server.url, partitions=2).partitions()


def test_runs_are_worked_in_all_partitions(store: RedisEventStore, server: ValkeyServer) -> None:
    spread = RedisEventStore(server.url, partitions=4)
    runs = [f"r{number}" for number in range(12)]
    for run in runs:
        new(spread, run)

    assert set(runs) == {run for run, _ in spread.runs()}
    assert {f"{run}/" for run in runs} == set(spread.sweep().tasks)
    for partition in range(4):
        mine = {run for run in runs if partition_of(run, 4) == partition}
        assert mine == {entry.run for entry in spread.feed(partition)}
    leases = [Held(run, f"{run}/", f"t-{run}") for run in runs]
    for lease in leases:
        spread.claim(lease.run, lease.task, lease.token, 10_000)
    assert {lease.task: Renewed(0, "open") for lease in leases} == spread.renew(leases, 10_000)


# --- Blocking ------------------------------------------------------------------------------------


def test_following_outlasts_the_connections_own_timeout(
    own_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py gives up on a silent connection; a reader that waits must not be deaf after it."""
    monkeypatch.setattr(redis_connection, "ANSWER_TIMEOUT_S", 0.1)
    store = RedisEventStore(own_server.url)
    new(store)

    assert [] == store.follow("r1", 1, wait_ms=400)


def test_closing_ends_a_reader_that_waits(store: RedisEventStore) -> None:
    new(store)
    answers: Queue[list[Envelope]] = Queue()
    reader = threading.Thread(target=lambda: answers.put(store.follow("r1", 1, wait_ms=60_000)))
    reader.start()
    store.close()

    assert [] == answers.get(timeout=5)
    reader.join()


# --- The throwaway server ------------------------------------------------------------------------


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(EnvironmentUnfit, match="maxmemory"):
        ValkeyServer(maxmemory="plenty").start()
    with pytest.raises(EnvironmentUnfit, match="can't start"):
        ValkeyServer("/nowhere/redis-server").start()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on PATH")
def test_the_log_works_on_redis() -> None:
    with ValkeyServer("redis-server") as server:
        store = RedisEventStore(server.url)
        new(store)
        assert isinstance(store.claim("r1", "r1/", "t", 1_000), Claimed)
        store.check()
        store.close()
