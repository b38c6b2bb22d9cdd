"""
Runs forked at any version: what had its result keeps it, what was under way is as a lost worker
leaves it, and what can't be gone on from is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.decisions.fork import fork
from mulligan.errors import InvalidInput, RunExists
from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.payload import INLINE_LIMIT_BYTES, Payload
from mulligan.projections import run as runs
from mulligan.projections import usage
from mulligan.projections.history import problems
from mulligan.projections.state import RunState
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, Plan, ToolSpec
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.registry import Tool

LONG = "x" * (2 * INLINE_LIMIT_BYTES)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS: dict[str, Any] = {"look": "read", "put": "idempotent", "send": "write"}
CALLS = tuple(
    ToolCall(f"c{place}", name, json.dumps({})) for place, name in enumerate(TOOLS, start=1)
)


def spec(name: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="",
        parameters={"type": "object"},
        effect=TOOLS[name],
        path=f"tools:{name}",
        digest="",
    )


def plan() -> Plan:
    """An agent that calls a tool of each class, its helper, and a function beside it and after."""
    agent = AgentPlan(
        prompt="Do.",
        model="m",
        output_schema=SCHEMA,
        recovery_limit=0,
        tools=tuple(f"tools:{name}" for name in TOOLS),
        subagents=("helper",),
    )
    helper = AgentPlan(prompt="Help.", model="m", output_schema=SCHEMA, recovery_limit=0)
    call = FunctionPlan(
        call=CodeRef(path="steps:keep", digest=""),
        arguments=("idempotency_key",),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    return plan_of(
        NodePlan(id="agent", work=agent),
        NodePlan(id="beside", work=call),
        NodePlan(id="last", work=call, needs=("agent", "beside")),
        tools={spec(name).path: spec(name) for name in TOOLS},
        agents={"helper": helper},
    )


def said(request: ModelRequest) -> Any:
    """Three tools, then the helper, then the output."""
    rounds = sum(bool(message.calls) for message in request.messages)
    if "." in request.request_id.partition("#")[0] or rounds == 2:
        return {"n": 1}
    ask = ToolCall("h", "call_subagent", json.dumps({"subagent": "helper", "input": "tea"}))
    return Answer(
        finish_reason="tool_calls",
        terminal=True,
        text="",
        calls=CALLS if rounds == 0 else (ask,),
        usage=facts.Usage(prompt_tokens=10, completion_tokens=1),
    )


class World(InMemory):
    """Counts what is done in it, each with the key that it is done with."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, str]] = Counter()
        tools = {f"tools:{name}": self._tool(name) for name in TOOLS}
        code = {**tools, "steps:keep": self._keep}
        super().__init__(provider=ScriptedProvider([said] * 1_000), code=code)

    def _tool(self, name: str) -> Any:
        def act(idempotency_key: str) -> str:
            self.done[name, idempotency_key if name == "put" else ""] += 1
            return LONG

        return Tool(act, name=name, effect=TOOLS[name])

    def _keep(self, idempotency_key: str) -> str:
        self.done["keep", idempotency_key] += 1
        return LONG

    def fork(self, at: int, run: str, parent: str = "run") -> list[Envelope]:
        """As `Client.fork` does; then whatever there is to do is done."""
        append = fork(
            self.store.read(parent),
            at,
            run,
            f"op-{run}",
            lambda payload: self.value(parent, payload),
        )
        self.store.append(append)
        self.work()
        return self.events(run)

    def value(self, run: str, payload: Payload) -> Any:
        return json.loads(self.store.payload(run, payload.digest))


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    state = world.run(plan())
    assert state.status == "completed"
    return world


def boundaries(events: list[Envelope]) -> list[int]:
    """The versions at which appends ended, but the last one's."""
    ops = [event.id.rpartition(".")[0] for event in events]
    return [version for version in range(1, len(events)) if ops[version - 1] != ops[version]]


def under_way(state: RunState) -> list[str]:
    """The tools whose calls have begun and have no result."""
    calls = [call for one in state.invocations.values() for call in one.calls.values()]
    return [call.name for call in calls if call.status == "started" and call.effect]


def test_a_fork_at_any_version_goes_on_from_there(world: World) -> None:
    """CON: fork. REC-23, REC-31: nothing that had a result by then is done again."""
    parent = world.events()
    lost_writes = 0
    assert len(boundaries(parent)) > 10
    for at in boundaries(parent):
        world.done.clear()
        before = runs.fold("run", parent[:at])
        forked = world.fork(at, f"fork{at}")
        state = world.state(f"fork{at}")

        assert problems(forked) == [], at
        copied = [(event.data, event.node, event.attempt) for event in forked[:at]]
        assert copied == [(event.data, event.node, event.attempt) for event in parent[:at]]
        assert forked[at].data == facts.RunForked(parent="run", at_version=at)
        for one in before.invocations.values():
            for call in one.calls.values():
                if call.status == "succeeded":
                    kept = state.invocations[one.id].calls[call.id]
                    assert replace(kept, write_starts=call.write_starts) == call
                    assert len(kept.write_starts) == len(call.write_starts)
                    key = call.key if call.name == "put" else ""
                    assert not world.done[call.name, key], (at, call.id)
        if "send" in under_way(before):
            lost_writes += 1
            assert (state.status, state.reason) == ("paused", "reconciliation_required"), at
            assert not world.done["send", ""]
        else:
            assert state.status == "completed", at
            assert world.value(f"fork{at}", state.output) == world.value(
                "run", world.state().output
            )
    assert lost_writes == 1


def test_what_is_repeated_is_repeated_with_the_key_it_began_with(world: World) -> None:
    parent = world.events()
    for name, kind in (("put", facts.ToolStarted), ("keep", facts.NodeStarted)):
        started = [at for at in boundaries(parent) if isinstance(parent[at - 1].data, kind)]
        world.done.clear()
        for at in started:
            world.fork(at, f"{name}{at}")
        keys = {key for done, key in world.done if done == name}
        assert any(key.startswith("run:") for key in keys), (name, keys)


def test_a_fork_counts_only_what_it_has_used_itself(world: World) -> None:
    parent = world.events()
    at = next(e.version for e in parent if isinstance(e.data, facts.SubagentCalled))
    used = usage.fold("fork", world.fork(boundary(parent, at), "used"))
    whole = usage.fold("run", parent)

    assert whole.models["m"].prompt_tokens == 20
    assert used.models["m"].prompt_tokens == 0
    assert 0 < used.models["m"].requests < whole.models["m"].requests


def boundary(events: list[Envelope], version: int) -> int:
    return next(at for at in boundaries(events) if at >= version)


def test_a_fork_may_be_forked(world: World) -> None:
    at = boundaries(world.events())[4]
    first = world.fork(at, "first")
    later = boundaries(first)[6]
    world.fork(later, "second", parent="first")

    assert problems(world.events("second")) == []
    assert world.state("second").forked_from == "first"
    assert world.state("second").status == "completed"


def test_a_long_run_is_forked_where_it_joins(world: World) -> None:
    one = FunctionPlan(
        call=CodeRef(path="steps:keep", digest=""),
        arguments=("idempotency_key",),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    each = NodePlan(id="each", work=one, for_each="input")
    state = world.run(
        plan_of(each, NodePlan(id="end", work=one, needs=("each",))), [0] * 600, "long"
    )
    assert state.version > 1_500
    world.done.clear()
    at = boundaries(world.events("long"))[-2]

    forked = world.fork(at, "longer", parent="long")
    assert problems(forked) == []
    assert world.state("longer").status == "completed"
    assert sum(world.done.values()) <= 2


def test_the_same_fork_again_changes_nothing_and_another_is_refused(world: World) -> None:
    first, other = boundaries(world.events())[:2]
    before = world.fork(first, "again")

    assert world.fork(first, "again") == before
    with pytest.raises(RunExists):
        world.fork(other, "again")


def test_versions_that_nothing_can_go_on_from_are_refused(world: World) -> None:
    parent = world.events()
    last = len(parent)
    within = next(at for at in range(1, last) if at not in boundaries(parent))
    for at, told in (
        (0, f"name one from 1 to {last}"),
        (last + 1, f"name one from 1 to {last}"),
        (last, f"fork at {boundaries(parent)[-1]} or before"),
        (within, "lies within one append"),
    ):
        with pytest.raises(InvalidInput, match=told):
            fork(parent, at, "refused", "op", lambda payload: None)
