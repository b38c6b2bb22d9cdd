"""
REC-34 over real HTTP: workers that share a provider's limits never hear a 429, and slots outlive
nobody who held them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mulligan import ainvoke, invoke
from mulligan.client import Client
from mulligan.events import facts
from mulligan.events.redis_slots import RedisSlots
from mulligan.events.slots import Lane
from mulligan.settings import RequestLimit, Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess

SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FLOW = f"""\
name: wide
settings: {{model: scripted/any, recovery_limit: 0}}
nodes:
  - id: part
    kind: agent
    prompt: "Say {{item}}."
    for_each: input
    output_schema: {json.dumps(SHAPE)}
"""
LEASE_MS = 1_000
ANSWER = {"json": {"n": 1}, "times": "always"}


class Bench:
    """A wide workflow, a model that counts, and workers with its limits."""

    def __init__(self, folder: Path, server: ValkeyServer, model: ScriptedModel) -> None:
        self.flow = folder / "wide.yaml"
        self.flow.write_text(FLOW)
        self.server = server
        self.model = model
        self.client = Client(Settings(redis_url=server.url, data_dir=folder))
        self.slots = RedisSlots(server.url)

    def worker(self, limits: dict[str, dict[str, int]], **options: Any) -> WorkerProcess:
        """Workers that keep to the limits; the test enters them."""
        environment = {"MULLIGAN_MODEL_LIMITS": json.dumps(limits)}
        return WorkerProcess(
            self.server.url, api_base=self.model.url, environment=environment, **options
        )

    def enqueue(self, width: int) -> str:
        """Ask for a run that asks the model so many times."""
        return self.client.enqueue(str(self.flow), list(range(width)))

    def of(self, run: str, kind: type) -> list[Any]:
        """A run's facts of one kind."""
        return [e.data for e in self.client.events(run) if isinstance(e.data, kind)]

    def idle(self) -> bool:
        """Whether nobody holds a slot or waits for one."""
        return all(load.held == load.waiting == 0 for load in self.slots.loads().values())

    def name(self, entry: str = "scripted/any") -> str:
        """The lane's name at the model's address."""
        return f"{entry} at 127.0.0.1:{self.model.port}/v1"


@pytest.fixture
def bench(tmp_path: Path, server: ValkeyServer) -> Iterator[Bench]:
    with server.client() as client:
        client.flushall()
    with ScriptedModel({"turns": [ANSWER]}) as model:
        bench = Bench(tmp_path, server, model)
        yield bench
        bench.slots.close()
        bench.client.close()


@pytest.mark.timeout(180)
def test_rec_34_500_requests_to_a_provider_that_takes_ten_end_without_a_429(bench: Bench) -> None:
    bench.model.play({"turns": [{**ANSWER, "delay_ms": 20}], "max_concurrent": 10})

    with bench.worker({"scripted/any": {"concurrent": 10}}, processes=2, threads=32) as worker:
        run = bench.enqueue(500)
        state = bench.client.wait(run, timeout_s=120)

        assert state.status == "completed", worker.log()[-3_000:]
    requests = bench.model.requests
    assert [one for one in requests if one.over_limit] == []
    assert len(requests) == 500 == len(bench.of(run, facts.ModelRequested))
    assert 8 <= max(one.concurrent for one in requests) <= 10
    assert bench.of(run, facts.AllowanceReserved) == []
    assert bench.of(run, facts.ModelInterrupted) == []
    assert len(bench.of(run, facts.SlotAwaited)) <= 500
    assert bench.idle()


def test_rec_34_slots_of_a_killed_worker_come_back_within_its_lease(bench: Bench) -> None:
    """All slots are held by requests that are never answered; whoever takes over needs them."""
    bench.model.play([{"fault": {"kind": "stall"}, "times": "always"}])
    limits = {"scripted/any": {"concurrent": 2}}
    with bench.worker(limits, lease_ms=LEASE_MS) as first:
        run = bench.enqueue(5)
        until(lambda: len(bench.model.requests) == 2)
        until(lambda: len(bench.of(run, facts.SlotAwaited)) == 3)
        bench.model.play([ANSWER])
        for pid in first.alive:
            os.kill(pid, signal.SIGKILL)
        first.kill()
        until(lambda: bench.slots.loads()[bench.name()].held == 0, timeout_s=LEASE_MS / 1_000 + 1)

        with bench.worker(limits) as second:
            state = bench.client.wait(run, timeout_s=30)

            assert state.status == "completed", second.log()[-3_000:]
    assert len(bench.of(run, facts.ModelInterrupted)) == 2
    assert bench.idle()


def test_rec_34_cancelled_and_draining_workers_give_their_slots_back_at_once(bench: Bench) -> None:
    """Long before their leases would have ended."""
    bench.model.play([{"fault": {"kind": "stall"}, "times": "always"}])
    long = {"lease_ms": 60_000, "lease_margin_ms": 1_000, "drain_s": 0.1}
    with bench.worker({"scripted/any": {"concurrent": 2}}, **long) as worker:
        first = bench.enqueue(2)
        until(lambda: len(bench.model.requests) == 2, why=worker.log)
        bench.client.cancel(first)
        until(bench.idle, timeout_s=10, why=worker.log)

        bench.enqueue(2)
        until(lambda: len(bench.model.requests) == 4, why=worker.log)
        worker.terminate()

        assert bench.slots.loads()[bench.name()].held == 0


def test_rec_34_a_request_that_outlasts_many_leases_keeps_its_slot(bench: Bench) -> None:
    lease_ms = 600
    bench.model.play({"turns": [{**ANSWER, "delay_ms": 5 * lease_ms}], "max_concurrent": 1})
    limits = {"scripted/any": {"concurrent": 1}}
    with bench.worker(limits, processes=2, lease_ms=lease_ms, lease_margin_ms=100):
        state = bench.client.wait(bench.enqueue(2), timeout_s=40)

    assert state.status == "completed"
    assert [one.over_limit for one in bench.model.requests] == [False, False]


def test_rec_34_an_operator_sees_what_is_waited_for_and_can_cancel_it(
    bench: Bench, command: Callable[..., Any]
) -> None:
    lane = Lane(name=bench.name(), concurrent=1)
    bench.slots.take(lane, "another deployment", "token", hold_ms=60_000)
    limits = {"scripted/any": {"concurrent": 1}}
    environment = {
        "MULLIGAN_REDIS_URL": bench.server.url,
        "MULLIGAN_MODEL_LIMITS": json.dumps(limits),
    }
    with bench.worker(limits) as worker:
        run = bench.enqueue(2)
        until(lambda: len(bench.of(run, facts.SlotAwaited)) == 2, why=worker.log)

        told = command("status", run, **environment).stdout
        assert f"waits for a slot of {bench.name()}" in told
        assert f"waits for a slot of {bench.name()}" in command("trace", run, **environment).stdout
        assert "1 of 1 slots held, 2 requests wait" in command("doctor", **environment).stdout

        bench.client.cancel(run)
        assert bench.client.wait(run, timeout_s=20).status == "cancelled"
        bench.slots.give_back(lane, "token")
        second = bench.client.wait(bench.enqueue(1), timeout_s=20)
        assert second.status == "completed"
    assert len(bench.model.requests) == 1


def test_rec_34_rec_29_calls_outside_runs_wait_in_the_same_lane(bench: Bench) -> None:
    limits = {"scripted/any": RequestLimit(concurrent=1)}
    settings = Settings(
        redis_url=bench.server.url, api_base=bench.model.url, model_limits=limits, lease_ms=1_000
    )
    lane = Lane(name=bench.name(), concurrent=1)
    bench.slots.take(lane, "somebody", "token", hold_ms=1_000)

    done = invoke("Say 1.", output=SHAPE, model="scripted/any", settings=settings)

    assert done.output == {"n": 1}
    assert [event.type for event in done.events].count("SlotAwaited") == 1
    assert done.recovery.used == 0
    assert bench.idle()


def test_rec_27_a_call_that_is_cancelled_while_it_waits_leaves_the_lane(bench: Bench) -> None:
    """Else those behind it would wait for one that is gone."""
    limits = {"scripted/any": RequestLimit(concurrent=1)}
    settings = Settings(redis_url=bench.server.url, model_limits=limits)
    lane = Lane(name=bench.name(), concurrent=1)
    bench.slots.take(lane, "other", "other", hold_ms=60_000)

    async def cancelled() -> None:
        call = asyncio.create_task(
            ainvoke(
                "Say.",
                model="scripted/any",
                output=SHAPE,
                api_base=bench.model.url,
                settings=settings,
            )
        )
        waits = partial(until, lambda: bench.slots.loads()[lane.name].waiting == 1)
        await asyncio.to_thread(waits)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())

    assert bench.slots.loads()[lane.name].waiting == 0
    assert bench.model.requests == []


def test_wrong_limits_are_refused_before_anything_is_done(command: Callable[..., Any]) -> None:
    for wrong, told in (
        ('{"opnai": {"concurrent": 1}}', "did you mean openai?"),
        ("ten", "MULLIGAN_MODEL_LIMITS must be a JSON object"),
    ):
        ended = command("worker", MULLIGAN_MODEL_LIMITS=wrong, MULLIGAN_REDIS_URL="redis://x")
        assert ended.returncode == 2, ended.stderr
        assert told in ended.stderr
