"""
Tenants over real processes, a real server and real HTTP: nobody starves beside a flood, limits hold
as the model sees them, and what a killed worker held comes back.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mulligan.cli import main
from mulligan.client import Client
from mulligan.errors import TenantQueueFull
from mulligan.events.tenants import TenantLimits, TenantView
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess

SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FLOW = f"""\
name: asking
settings: {{model: scripted/any, recovery_limit: 0}}
nodes:
  - {{id: say, kind: agent, prompt: "Say {{input}}.", output_schema: {json.dumps(SHAPE)}}}
"""
ANSWER = {"json": {"n": 1}, "times": "always"}
LEASE_MS = 1_000


class Bench:
    def __init__(self, folder: Path, server: ValkeyServer, model: ScriptedModel) -> None:
        (folder / "asking.yaml").write_text(FLOW)
        self.server, self.model = server, model
        self.client = Client(Settings(redis_url=server.url, data_dir=folder))
        self.plan = self.client.plan(str(folder / "asking.yaml"))

    def worker(self, **options: Any) -> WorkerProcess:
        return WorkerProcess(self.server.url, api_base=self.model.url, lease_ms=LEASE_MS, **options)

    def enqueue(self, tenant: str, count: int = 1) -> list[str]:
        runs = [f"{tenant}-{n}" for n in range(count)]
        for run in runs:
            self.client.enqueue(self.plan, 1, run_id=run, tenant=tenant)
        return runs

    def tenant(self, name: str) -> TenantView:
        (found,) = [one for one in self.client.tenants().tenants if one.tenant == name]
        return found

    def appended(self) -> list[tuple[str, str]]:
        """Every event of every run in the order of the log: its run and its kind."""
        store = self.client.store
        entries = store.feed(0, limit=10_000)
        kinds = {
            (event.run, event.version): event.type
            for run in {entry.run for entry in entries}
            for event in store.read(run)
        }
        return [
            (entry.run, kinds[entry.run, version])
            for entry in entries
            for version in range(entry.version - entry.count + 1, entry.version + 1)
        ]


@pytest.fixture
def bench(tmp_path: Path, server: ValkeyServer) -> Iterator[Bench]:
    with server.client() as client:
        client.flushall()
    with ScriptedModel({"turns": [ANSWER]}) as model:
        bench = Bench(tmp_path, server, model)
        yield bench
        bench.client.close()


@pytest.mark.timeout(120)
def test_one_run_beside_a_flood_of_200_begins_after_what_had_begun_before(bench: Bench) -> None:
    """In the order of the log, whatever the machine's speed; and everything ends."""
    most = 4
    bench.client.limit_tenant("*", TenantLimits(runs=most))
    bench.model.play([{**ANSWER, "delay_ms": 20}])
    flood = bench.enqueue("a", 200)
    with bench.worker(processes=2, threads=4) as worker:
        until(lambda: bench.client.status("a-10").started_ms is not None, 60, worker.log)
        (single,) = bench.enqueue("b")
        assert bench.client.wait(single, timeout_s=30).status == "completed"
        assert bench.client.status("a-199").status == "queued"
        for run in flood:
            bench.client.wait(run, timeout_s=60)

    log = bench.appended()
    asked, begun = log.index((single, "RunRequested")), log.index((single, "RunStarted"))
    before = [run for run, kind in log[asked:begun] if kind == "RunStarted"]
    assert len(before) <= 2 * most, "its first step waits for what has begun, not for the flood"
    held = 0
    for run, kind in log:
        if run.startswith("a-"):
            held += (kind == "RunStarted") - (kind == "RunCompleted")
            assert held <= most
    assert bench.tenant("a").runs == bench.tenant("a").runs_waiting == 0


@pytest.mark.timeout(120)
def test_the_model_never_sees_more_requests_of_a_tenant_than_it_may_have(bench: Bench) -> None:
    bench.client.limit_tenant("a", TenantLimits(requests=3))
    bench.model.play({"turns": [{**ANSWER, "delay_ms": 20}], "max_concurrent": 3})
    runs = bench.enqueue("a", 60)

    with bench.worker(processes=2, threads=16):
        assert {bench.client.wait(run, timeout_s=60).status for run in runs} == {"completed"}

    requests = bench.model.requests
    assert [one for one in requests if one.over_limit] == []
    assert max(one.concurrent for one in requests) == 3
    assert len(requests) == 60
    assert bench.tenant("a").requests == bench.tenant("a").requests_waiting == 0


def test_what_a_killed_worker_held_of_a_tenant_comes_back_within_its_lease(bench: Bench) -> None:
    bench.model.play([{"fault": {"kind": "stall"}, "times": "always"}])
    bench.client.limit_tenant("a", TenantLimits(requests=2, runs=3))
    runs = bench.enqueue("a", 5)
    with bench.worker() as first:
        until(lambda: len(bench.model.requests) == 2)
        until(lambda: bench.tenant("a").requests_waiting == 1)
        bench.model.play([ANSWER])
        for pid in first.alive:
            os.kill(pid, signal.SIGKILL)

    with bench.worker():
        states = [bench.client.wait(run, timeout_s=30) for run in runs]

    assert {state.status for state in states} == {"completed"}
    assert bench.tenant("a").requests == bench.tenant("a").runs == 0


def test_a_full_line_refuses_and_a_raised_limit_lets_runs_begin_at_once(bench: Bench) -> None:
    bench.client.limit_tenant("a", TenantLimits(runs=1, queued=2))
    with bench.worker():
        bench.model.play([{"fault": {"kind": "stall"}, "times": "always"}])
        runs = bench.enqueue("a", 3)
        with pytest.raises(TenantQueueFull):
            bench.client.enqueue(bench.plan, 1, tenant="a")
        assert bench.client.enqueue(bench.plan, 1, run_id=runs[2], tenant="a") == runs[2]
        assert bench.client.status(runs[2]).status == "queued"
        until(lambda: len(bench.model.requests) == 1)
        bench.model.play([ANSWER])

        bench.client.limit_tenant("a", TenantLimits(runs=3))

        states = [bench.client.wait(run, timeout_s=10) for run in runs[1:]]
    assert {state.status for state in states} == {"completed"}


def test_operators_set_and_see_limits_on_the_command_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", bench.server.url)

    def mulligan(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, words)
        return done.exit_code, done.output

    assert mulligan("tenants", "set", "acme", "--runs", "5", "--queued", "9")[0] == 0
    assert mulligan("tenants", "set", "acme", "--requests", "none", "--queued", "default")[0] == 0
    assert mulligan("tenants", "set", "--default", "--per-minute", "60")[0] == 0
    assert mulligan("tenants", "set", "--together", "--runs", "50")[0] == 0
    bench.enqueue("acme")

    shown = json.loads(mulligan("tenants", "show", "acme", "--json")[1])
    assert shown["own"] == {"runs": 5, "requests": "none"}
    assert shown["limits"] == {"runs": 5, "requests": "none", "per_minute": 60}
    assert shown["runs"] == 1
    _, told = mulligan("tenants", "list")
    assert re.search(r"^acme +1 of 5 ", told, re.MULTILINE)
    assert "at most 50 runs at once" in told
    assert "acme-0" in mulligan("list", "--tenant", "acme")[1]
    assert "no such runs" in mulligan("list", "--tenant", "other")[1]
    for wrong in (
        ("set",),
        ("set", "acme"),
        ("set", "a b", "--runs", "1"),
        ("set", "acme", "--runs", "0"),
        ("set", "acme", "--default", "--runs", "1"),
        ("set", "--together", "--requests", "1"),
        ("show", "a/b"),
    ):
        assert mulligan("tenants", *wrong)[0] == 2, wrong
