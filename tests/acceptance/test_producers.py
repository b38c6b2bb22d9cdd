"""Producers: the asynchronous client, and one that dies between its call and the reply."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span

from mulligan import AsyncClient, Client
from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.actors.reconciler import Reconciler
from mulligan.cli import main
from mulligan.errors import InvalidInput, RunExists, RunFailed, RunUnknown, WaitTimedOut
from mulligan.events.facts import RunRequested, RunStarted
from mulligan.kept_plan import PlanKept
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server

FLOW = """
name: produced
nodes:
  - {id: only, kind: function, call: "produced_steps:only"}
"""


@pytest.fixture
def settings(server: ValkeyServer) -> Settings:
    with server.client() as client:
        client.flushall()
    return Settings(redis_url=server.url)


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "produced_steps.py").write_text(
        "from pathlib import Path\n"
        "def only(input):\n"
        "    with (Path(__file__).parent / 'calls').open('a') as calls:\n"
        "        calls.write('call\\n')\n"
        "    if input == 'bad':\n"
        "        raise ValueError('bad')\n"
        "    return {'got': input, 'large': 'x' * 20_000}\n"
    )
    (tmp_path / "flow.yaml").write_text(FLOW)
    yield str(tmp_path / "flow.yaml")
    sys.modules.pop("produced_steps", None)


@pytest.fixture
def worker(settings: Settings) -> Iterator[None]:
    runtime = assemble(settings)
    with working(runtime, threads=4, drain_s=2):
        yield
    runtime.close()


@pytest.mark.usefixtures("worker")
def test_an_asynchronous_program_asks_for_runs_and_follows_them(
    settings: Settings, flow: str
) -> None:
    async def program() -> None:
        async with AsyncClient(settings) as client:
            run = await client.enqueue(flow, 1, run_id="one", tags=("a",))
            types = [event.type async for event in client.events(run, follow=True)]
            assert (types[0], types[-1]) == ("RunRequested", "RunCompleted")
            assert [event.version async for event in client.events(run, after=2)] == list(
                range(3, len(types) + 1)
            )
            assert (await client.result(run))["got"] == 1
            assert (await client.status(run)).tags == ("a",)
            assert not await client.cancel(run), "it has ended"

            bad = await client.enqueue(flow, "bad")
            with pytest.raises(RunFailed):
                await client.result(bad)
            with pytest.raises(RunExists):
                await client.enqueue(flow, 2, run_id="one")
            with pytest.raises(RunUnknown):
                await client.result("none")

    asyncio.run(program())


def test_a_run_links_to_the_span_that_it_was_asked_for_in(settings: Settings, flow: str) -> None:
    async def program() -> tuple[RunRequested, Span]:
        async with AsyncClient(settings) as client:
            with TracerProvider().get_tracer("shop").start_as_current_span("order") as span:
                run = await client.enqueue(flow, 1, delay_ms=3_600_000)
            event = await anext(client.events(run))
            assert isinstance(event.data, RunRequested)
            return event.data, span

    asked, span = asyncio.run(program())

    context = span.get_span_context()
    assert asked.traceparent == f"00-{context.trace_id:032x}-{context.span_id:016x}-03"


def test_a_run_that_is_asked_for_again_with_another_model_says_that_it_keeps_its_own(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", str(settings.redis_url))
    path = tmp_path / "asks.yaml"
    path.write_text("{name: asks, nodes: [{id: only, kind: agent, prompt: p}]}")
    asked = ["enqueue", str(path), "--run-id", "one", "--model"]

    first = CliRunner().invoke(main, [*asked, "scripted/a"])
    same = CliRunner().invoke(main, [*asked, "scripted/a", "--json"])
    other = CliRunner().invoke(main, [*asked, "scripted/b", "--json"])

    keeps = "run 'one' was asked for before, and keeps the plan that it began with"
    assert (0, 0, 0) == (first.exit_code, same.exit_code, other.exit_code)
    assert ("one\n", "", "") == (first.stdout, first.stderr, same.stderr)
    assert other.stderr.startswith(f"{keeps} (model scripted/a, not scripted/b)")
    assert "kept" not in json.loads(same.stdout)
    assert json.loads(other.stdout)["kept"] == other.stderr.strip()
    with Client(settings) as client, pytest.warns(PlanKept, match="not scripted/c"):
        client.enqueue(str(path), run_id="one", model="scripted/c")


def test_many_who_wait_do_not_hold_up_who_asks(settings: Settings, flow: str) -> None:
    async def program() -> None:
        async with AsyncClient(settings) as client:
            later = await client.enqueue(flow, 1, delay_ms=3_600_000)
            waiting = [asyncio.create_task(client.wait(later)) for _ in range(60)]
            await asyncio.sleep(0)
            began = time.monotonic()
            await client.enqueue(flow, 2)
            assert time.monotonic() - began < 5
            with pytest.raises(WaitTimedOut):
                await client.wait(later, timeout_s=0.05)
            assert await client.cancel(later)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(program())


def test_it_says_how_it_is_used() -> None:
    async def program() -> None:
        client = AsyncClient()
        with pytest.raises(RuntimeError, match="async with"):
            await client.status("run")
        await client.close()

    asyncio.run(program())


PRODUCER = """
import os, sys
from mulligan import Client
with Client() as client:
    if sys.argv[1] == "dies":
        append = client.store.append
        client.store.append = lambda asked: (append(asked), os._exit(9))
    print(client.enqueue(sys.argv[2], {"order": 7}, run_id="order-7"))
"""


def test_a_producer_that_dies_before_the_reply_and_asks_again_has_one_run(
    settings: Settings, flow: str, tmp_path: Path
) -> None:
    """UI: the same `--run-id` with the same input is the same run."""

    def produce(how: str) -> subprocess.CompletedProcess[str]:
        assert settings.redis_url is not None
        environment = os.environ | {"MULLIGAN_REDIS_URL": settings.redis_url}
        return subprocess.run(
            [sys.executable, "-c", PRODUCER, how, flow],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert produce("dies").returncode == 9
    with Client(settings) as client:
        assert client.store.row("order-7") is not None, "it was in the log, though nobody heard"
        runtime = assemble(settings)
        with working(runtime, threads=2, drain_s=2):
            assert client.result("order-7", timeout_s=30)["got"] == {"order": 7}
            again = produce("lives")
            assert again.stdout.strip() == "order-7", again.stderr
            assert client.result("order-7", timeout_s=30)["got"] == {"order": 7}
        runtime.close()
        asked = [e for e in client.events("order-7") if isinstance(e.data, RunRequested)]
        assert len(asked) == 1
        assert [run for run, _ in client.store.runs()] == ["order-7"]
    assert (tmp_path / "calls").read_text() == "call\n"


@pytest.mark.parametrize("lost", [False, True], ids=["sent by the producer", "found by a sweep"])
def test_a_run_of_a_higher_priority_goes_first_where_much_waits(
    settings: Settings, flow: str, lost: bool
) -> None:
    """All wait before a worker of one thread comes, the unimportant ones the longest."""
    runs = {f"late{n}": 1 for n in range(4)} | {f"usual{n}": 0 for n in range(20)} | {"first": -1}
    runtime = assemble(settings)
    with Client(settings) as client:
        for run, priority in runs.items():
            client.enqueue(flow, "tea", run_id=run, priority=priority)
        if lost:
            runtime.broker.flush_all()
            Reconciler(runtime.store, runtime.send, lambda: 0).sweep_once()
        with working(runtime, threads=1, drain_s=2):
            order = sorted(runs, key=lambda run: _started_ms(client, run))
    runtime.close()

    assert order[0] == "first"
    assert set(order[-4:]) == {run for run, priority in runs.items() if priority == 1}


def _started_ms(client: Client, run: str) -> int:
    client.wait(run, timeout_s=60)
    return next(one.time_ms for one in client.events(run) if isinstance(one.data, RunStarted))


def test_a_priority_that_there_is_not_is_refused(settings: Settings, flow: str) -> None:
    with Client(settings) as client:
        with pytest.raises(InvalidInput, match="use -1"):
            client.enqueue(flow, "tea", priority=2)  # type: ignore[arg-type]

        assert list(client.store.runs()) == []
