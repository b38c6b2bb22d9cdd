"""
REC-27 over real HTTP: whatever a run is at, it ends as cancelled, sends nothing more, and keeps
what its tools came to. (During a stream and a wait, and in every place: also `test_recovery.py` and
the matrix.)
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.async_client import AsyncClient
from mulligan.events import facts
from mulligan.projections.history import problems
from mulligan.schemas.builder import Workflow
from mulligan.testing.recovery_cells import GOOD
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.stage import PROMPT, RETRY, SCHEMA, Ended, Stage
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

TOOLS = '''
import time
from pathlib import Path
from mulligan import tool

GATE = Path(__file__).with_name("gate")
BEGUN = Path(__file__).with_name("begun")

def wait():
    with BEGUN.open("a") as begun:
        begun.write("begun ")
    for _ in range(6_000):
        if GATE.exists():
            return "done"
        time.sleep(0.01)
    raise TimeoutError("nobody opened the gate")

@tool(effect="read", timeout_ms=60_000)
def read() -> str:
    """Read slowly."""
    return wait()

@tool(effect="write", timeout_ms=60_000)
def write() -> str:
    """Write slowly."""
    return wait()

@tool(effect="write", timeout_ms=3_000)
def hang() -> str:
    """Write, and never come back in time."""
    return wait()
'''


class Slow:
    """Tools that run until their gate is opened."""

    def __init__(self, folder: Path) -> None:
        (folder / "slow_tools.py").write_text(TOOLS)
        self.module = importlib.import_module("slow_tools")

    @property
    def begun(self) -> int:
        """How many executions have begun."""
        begun: Path = self.module.BEGUN
        return len(begun.read_text().split()) if begun.exists() else 0

    def open(self) -> None:
        """Let them return."""
        self.module.GATE.touch()

    def close(self) -> None:
        """As before any call."""
        for path in (self.module.GATE, self.module.BEGUN):
            path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def slow_module(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slow]:
    folder = tmp_path_factory.mktemp("slow")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield Slow(folder)


@pytest.fixture
def slow(slow_module: Slow) -> Iterator[Slow]:
    yield slow_module
    slow_module.close()


def calling(tool: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "arguments": {}}]}


def flow(model: ScriptedModel, tool: str) -> Workflow:
    flow = Workflow("flow", model="scripted/m", api_base=model.url, retry=RETRY)
    flow.agent("agent", prompt=PROMPT, output=SCHEMA, tools=[f"slow_tools:{tool}"])
    return flow


def held(model: ScriptedModel, ended: Ended) -> None:
    """What holds for every cancelled run."""
    assert ("cancelled", "cancelled") == (ended.status, ended.recovery.phase)
    assert 1 == len(model.requests), "nothing more was sent"
    assert [] == ended.of(facts.AllowanceReserved)
    assert [] == problems(ended.events)
    assert [] == ended.of(facts.OutputAccepted)


@pytest.mark.parametrize("tool", ["read", "write"])
def test_rec27_a_tool_that_runs_is_awaited_and_its_result_kept(
    tool: str, stage: Stage, slow: Slow
) -> None:
    with ScriptedModel([calling(tool), GOOD]) as model:
        run = stage.client.enqueue(flow(model, tool))
        until(lambda: slow.begun)
        stage.client.cancel(run)
        until(lambda: stage.client.status(run).status == "cancelling")
        slow.open()
        until(lambda: stage.ended(run).of(facts.ToolSucceeded))
        ended = stage.ended(run)

        held(model, ended)
    (call,) = ended.state.invocations["agent"].calls.values()
    assert ("succeeded", 1) == (call.status, slow.begun)


def test_rec27_a_write_that_leaves_no_receipt_is_recorded_as_unknown(
    stage: Stage, slow: Slow
) -> None:
    with ScriptedModel([calling("hang"), GOOD]) as model:
        run = stage.client.enqueue(flow(model, "hang"))
        until(lambda: slow.begun)
        stage.client.cancel(run)
        ended = stage.ended(run)

        held(model, ended)
    (call,) = ended.state.invocations["agent"].calls.values()
    assert "unknown" == call.status
    assert 1 == slow.begun


def test_rec27_an_asynchronous_client_cancels_as_well(stage: Stage) -> None:
    async def cancel(run: str) -> bool:
        async with AsyncClient(stage.settings) as client:
            return await client.cancel(run)

    endless = {"text": "words " * 5_000, "chunks": 5, "chunk_delay_ms": 50}
    with ScriptedModel([endless, GOOD]) as model:
        run = stage.enqueue(model)
        until(lambda: model.requests)
        assert asyncio.run(cancel(run))
        until(lambda: model.requests[0].outcome == "disconnected", 5)

        held(model, stage.ended(run))


def test_rec27_rec29_a_cancelled_ainvoke_awaits_its_tool_and_sends_nothing_more(
    stage: Stage, slow: Slow
) -> None:
    async def call(model: ScriptedModel) -> None:
        options = stage.call_options(model, {"tools": []}) | {"tools": [slow.module.read]}
        asked = asyncio.create_task(mulligan.ainvoke(PROMPT, **options))
        while not slow.begun:
            await asyncio.sleep(0.01)
        asked.cancel()
        _, pending = await asyncio.wait({asked}, timeout=0.2)
        assert pending, "the tool still runs"
        slow.open()
        with pytest.raises(asyncio.CancelledError):
            await asked

    with ScriptedModel([calling("read"), GOOD]) as model:
        asyncio.run(call(model))
        assert 1 == len(model.requests)
    assert 1 == slow.begun


def test_rec27_a_late_answer_of_a_cancelled_run_is_dropped(stage: Stage) -> None:
    """The model answers right after the cancellation: it wins over the success."""
    with ScriptedModel([{**GOOD, "delay_ms": 300}]) as model:
        run = stage.enqueue(model)
        until(lambda: model.requests)
        stage.client.cancel(run)

        held(model, stage.ended(run))


def test_rec27_called_agents_are_cancelled_too(stage: Stage) -> None:
    call = {"tool_calls": [{"name": "call_subagent", "arguments": {"subagent": "c", "input": 1}}]}
    endless = {"text": "words " * 5_000, "chunks": 5, "chunk_delay_ms": 50}
    with ScriptedModel([call, endless, GOOD]) as model:
        made = Workflow("flow", model="scripted/m", api_base=model.url, retry=RETRY)
        made.subagent("c", prompt=PROMPT, output=SCHEMA)
        made.agent("agent", prompt=PROMPT, output=SCHEMA, subagents=["c"])
        run = stage.client.enqueue(made)
        until(lambda: len(model.requests) == 2)
        stage.client.cancel(run)
        until(lambda: model.requests[1].outcome == "disconnected", 5)
        ended = stage.ended(run)

        assert 2 == len(model.requests)
    phases = [one.recovery.phase for one in ended.state.invocations.values()]
    assert ["cancelled", "cancelled"] == phases
