"""Everything on a real Redis Cluster of three nodes, the queue on a server of its own."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.actors.roster import live_workers
from mulligan.cli import main
from mulligan.client import Client
from mulligan.errors import EnvironmentUnfit, StoreUnavailable, StoreUnfit
from mulligan.events.redis_store import RedisEventStore
from mulligan.projections.history import problems
from mulligan.projections.verify import problems_of
from mulligan.settings import Settings, load_settings
from mulligan.testing.cluster import ValkeyCluster
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server

PARTITIONS = 8
RUNS = 24

FLOW = """
name: spread
nodes:
  - {id: split, kind: function, call: "cluster_steps:split"}
  - {id: part, kind: function, call: "cluster_steps:part", needs: [split], for_each: split.items}
  - {id: join, kind: function, call: "cluster_steps:join", needs: [part]}
"""
STEPS = """
def split(input):
    return {"items": list(range(input))}

def part(item):
    return {"item": item, "large": "x" * 9_000}

def join(part):
    return sum(one["item"] for one in part)
"""


@pytest.fixture
def settings(
    cluster: ValkeyCluster, server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    cluster.flush()
    with server.client() as client:
        client.flushall()
    monkeypatch.setenv("MULLIGAN_REDIS_URL", cluster.url)
    monkeypatch.setenv("MULLIGAN_BROKER_URL", server.url)
    monkeypatch.setenv("MULLIGAN_PARTITIONS", str(PARTITIONS))
    return load_settings()


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cluster_steps.py").write_text(STEPS)
    (tmp_path / "flow.yaml").write_text(FLOW)
    yield str(tmp_path / "flow.yaml")
    sys.modules.pop("cluster_steps", None)


def test_runs_of_all_partitions_are_worked_followed_and_listed(
    settings: Settings, cluster: ValkeyCluster, flow: str
) -> None:
    runtime = assemble(settings)
    with Client(settings) as client, working(runtime, threads=6, drain_s=2):
        runs = [client.enqueue(flow, 3, run_id=f"run{number}") for number in range(RUNS)]
        assert [client.result(run, timeout_s=60) for run in runs] == [3] * RUNS
        assert len(live_workers(client.store)) == 1
        assert client.store.partitions() == PARTITIONS
        assert sum(bool(client.store.feed(part)) for part in range(PARTITIONS)) == PARTITIONS

        listed = json.loads(CliRunner().invoke(main, ["list", "--json"]).stdout)["runs"]
        assert {row["run"]: row["status"] for row in listed} == dict.fromkeys(runs, "completed")
        lines = CliRunner().invoke(main, ["tail"]).stdout.splitlines()
        assert len(lines) == sum(len(client.store.read(run)) for run in runs)
        assert CliRunner().invoke(main, ["rebuild"]).exit_code == 0
        for run in runs:
            events = client.store.read(run)
            assert problems(events) == []
            assert problems_of(client.store, run, events) == []
        assert client.store.audit() == []
    runtime.close()
    assert all(cluster.keys_by_server()), "each node holds a share"


def test_the_doctor_looks_at_a_cluster(settings: Settings) -> None:
    shown = CliRunner().invoke(main, ["doctor", "--json"])
    assert shown.exit_code == 0, shown.output
    findings = json.loads(shown.stdout)["findings"]
    assert any("cluster 127.0.0.1" in one["detail"] for one in findings)
    assert sum(one["matter"] == "memory" for one in findings) == 3


def test_the_queue_needs_a_server_of_its_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MULLIGAN_BROKER_URL")
    with pytest.raises(EnvironmentUnfit, match="MULLIGAN_BROKER_URL"):
        assemble(load_settings())


def test_another_number_of_partitions_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(settings) as client:
        assert client.store.partitions() == PARTITIONS
    monkeypatch.setenv("MULLIGAN_PARTITIONS", "4")
    with Client(load_settings()) as client, pytest.raises(StoreUnfit, match="8 partitions, not 4"):
        client.store.partitions()


def test_a_node_that_hangs_is_an_error_that_passes() -> None:
    with ValkeyCluster() as own:
        store = RedisEventStore(own.url, partitions=PARTITIONS)
        assert [store.feed(part) for part in range(PARTITIONS)] == [[]] * PARTITIONS
        own.servers[1]._end(signal.SIGKILL)
        reached = [_reached(store, part) for part in range(PARTITIONS)]
        assert False in reached
        store.close()


def _reached(store: RedisEventStore, partition: int) -> bool:
    try:
        store.feed(partition)
    except StoreUnavailable:
        return False
    return True


def test_no_cluster_there_is_said_so() -> None:
    with pytest.raises(StoreUnavailable):
        RedisEventStore("redis+cluster://127.0.0.1:1")
