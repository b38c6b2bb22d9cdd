"""Live output, one suite for every implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mulligan.errors import StoreUnavailable
from mulligan.events.deltas import Delta, Deltas
from mulligan.events.keys import PREFIX
from mulligan.events.memory_deltas import MemoryDeltas
from mulligan.events.redis_deltas import RedisDeltas
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until

PARTITIONS = 5
WAIT_MS = 5_000


@pytest.fixture(
    params=[
        "memory",
        pytest.param("server", marks=pytest.mark.server),
        pytest.param("redis_server", marks=pytest.mark.server),
        pytest.param("cluster", marks=pytest.mark.server),
    ]
)
def deltas(request: pytest.FixtureRequest) -> Iterator[Deltas]:
    if request.param == "memory":
        yield MemoryDeltas()
        return
    deltas = RedisDeltas(request.getfixturevalue(request.param).url, lambda: PARTITIONS)
    yield deltas
    deltas.close()


def delta(text: str, run: str = "run", **changes: Any) -> Delta:
    fields: dict[str, Any] = {
        "node": "collect",
        "invocation": "collect",
        "attempt": 1,
        "request_id": "collect#1",
        "kind": "text",
        "offset": 0,
    }
    return Delta(run=run, text=text, **(fields | changes))


def test_who_listens_hears_what_is_said_from_then_on_in_order(deltas: Deltas) -> None:
    deltas.publish(delta("before"))
    subscription = deltas.subscribe("run")
    said = [delta(f"{number} öäü\n", offset=number) for number in range(50)]
    for one in said:
        deltas.publish(one)

    found: list[Delta] = []
    while len(found) < len(said):
        came = subscription.heard(WAIT_MS)
        assert came, "something was lost"
        found += came
    assert found == said
    assert subscription.heard(0) == []
    subscription.close()


def test_readers_of_a_run_hear_all_of_it_and_nothing_of_other_runs(deltas: Deltas) -> None:
    runs = [f"run{number}" for number in range(8)]
    readers = {run: [deltas.subscribe(run), deltas.subscribe(run)] for run in runs}
    for run in runs:
        deltas.publish(delta("hello", run))

    for run in runs:
        for reader in readers[run]:
            assert reader.heard(WAIT_MS) == [delta("hello", run)]
            assert reader.heard(0) == []
            reader.close()


def test_the_runs_that_somebody_listens_to_are_told(deltas: Deltas) -> None:
    runs = [f"run{number}" for number in range(8)]
    assert deltas.listened(runs) == set()
    readers = [deltas.subscribe(run) for run in runs[:3]]
    assert deltas.listened(runs) == set(runs[:3])
    assert deltas.listened(runs[2:]) == {runs[2]}
    assert deltas.listened([]) == set()
    for reader in readers:
        reader.close()
    until(lambda: deltas.listened(runs) == set(), 10.0)


def test_a_reader_that_waits_is_woken(deltas: Deltas) -> None:
    subscription = deltas.subscribe("run")
    found: list[Delta] = []
    reader = threading.Thread(target=lambda: found.extend(subscription.heard(30_000)))
    reader.start()
    deltas.publish(delta("now"))
    reader.join(10.0)
    assert found == [delta("now")]
    subscription.close()


def test_a_reader_that_reads_nothing_holds_nobody_up(deltas: Deltas) -> None:
    subscription = deltas.subscribe("run")
    for number in range(500):
        deltas.publish(delta("x" * 1_000, offset=number))
    assert subscription.heard(WAIT_MS)[0].offset == 0
    subscription.close()


def test_a_message_that_arrives_in_parts_is_waited_for_once_it_has_begun(deltas: Deltas) -> None:
    subscription = deltas.subscribe("run")
    said = [delta(str(number) * 4_000_000, offset=number) for number in range(3)]
    for one in said:
        deltas.publish(one)
    found: list[Delta] = []

    def all_heard() -> bool:
        found.extend(subscription.heard(0))
        return len(found) == len(said)

    until(all_heard, 10.0)
    assert found == said
    subscription.close()


@pytest.mark.server
def test_nothing_of_it_is_stored(server: ValkeyServer) -> None:
    """OVR-10: what a model says is in no key, and no key says that somebody listened."""
    deltas = RedisDeltas(server.url, lambda: PARTITIONS)
    with server.client() as client:
        client.flushall()
        subscription = deltas.subscribe("run")
        deltas.publish(delta("canary"))
        assert subscription.heard(WAIT_MS) == [delta("canary")]
        assert client.keys("*") == []
        subscription.close()
    deltas.close()


@pytest.mark.server
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"type": "later"}'])
def test_what_is_no_delta_is_left_out(server: ValkeyServer, raw: bytes) -> None:
    deltas = RedisDeltas(server.url, lambda: 1)
    subscription = deltas.subscribe("run")
    with server.client() as client:
        client.execute_command("SPUBLISH", f"{PREFIX}:{{0}}:d:run", raw)
    deltas.publish(delta("after"))
    found: list[Delta] = []
    until(lambda: bool(found.extend(subscription.heard(100)) or found), 10.0)
    assert found == [delta("after")]
    subscription.close()
    deltas.close()


def test_a_server_that_is_away_is_told_as_such() -> None:
    deltas = RedisDeltas("unix:///nowhere/valkey.sock", lambda: 1)
    calls: list[Callable[[], Any]] = [
        lambda: deltas.publish(delta("x")),
        lambda: deltas.listened(["run"]),
        lambda: deltas.subscribe("run"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call()


def test_its_repr_has_no_text() -> None:
    assert "canary" not in repr(delta("canary"))
