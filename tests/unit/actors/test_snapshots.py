"""A fold that begins at a snapshot is the fold of the whole log, or the snapshot does not count."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.actors import snapshots
from mulligan.actors.cache import RunCache
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import NodeStarted
from mulligan.events.memory_records import MemoryRun
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, AsFact
from mulligan.projections.run import evolve, fold
from mulligan.projections.state import RunState
from mulligan.providers.port import Answer, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, Plan, ToolSpec
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.result import success


def _function(name: str, *arguments: str, attempts: int = 1) -> FunctionPlan:
    return FunctionPlan(
        call=CodeRef(path=f"steps:{name}", digest=""),
        arguments=arguments,
        effect="idempotent",
        attempts=attempts,
        backoff_ms=1,
        backoff_max_ms=1,
    )


SAVE = ToolSpec(
    name="save", description="", parameters={}, effect="write", path="tools:save", digest=""
)


def _plan() -> Plan:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    agent = AgentPlan(
        prompt="p", model="m", output_schema=schema, recovery_limit=2, tools=("tools:save",)
    )
    return plan_of(
        NodePlan(id="split", work=_function("split", "input")),
        NodePlan(
            id="part",
            needs=("split",),
            for_each="split.items",
            work=_function("part", "item", attempts=2),
        ),
        NodePlan(id="agent", needs=("split",), when="split.ask", work=agent),
        NodePlan(id="join", needs=("part", "agent"), work=_function("join", "part")),
        tools={"tools:save": SAVE},
    )


def _answer(number: int, name: str, arguments: str) -> Answer:
    call = ToolCall(f"c{number}", name, arguments)
    return Answer(finish_reason="tool_calls", terminal=True, text="so", calls=(call,))


class _Tool:
    def call(self, arguments: Any, *, key: str | None, context: Any = None) -> Any:
        return success({"saved": arguments})


def _history(items: int, failing: set[int], ask: bool, calls: int, wrong: int) -> list[Envelope]:
    def part(item: int) -> Any:
        if item in failing:
            raise ValueError("no")
        return {"text": "x" * 20 * item, "number": 1.5 * item, "none": None}

    answers = [_answer(number, "save", f'{{"n": {number}}}') for number in range(calls)]
    answers += [
        _answer(50 + number, "submit_output", '{"output": "no"}') for number in range(wrong)
    ]
    answers.append(_answer(99, "submit_output", '{"output": {"n": 1}}'))
    world = InMemory(
        provider=ScriptedProvider(answers),
        code={
            "steps:split": lambda input: {"items": list(range(items)), "ask": ask},  # noqa: A006
            "steps:part": part,
            "steps:join": lambda part: len(part),
            "tools:save": _Tool(),  # type: ignore[dict-item]
        },
    )
    world.run(_plan(), {"topic": "tea"})
    return world.events()


def _bytes(state: RunState) -> bytes:
    return msgspec.json.encode(state)


@settings(max_examples=40)
@given(
    items=st.integers(0, 5),
    failing=st.sets(st.integers(0, 4), max_size=1),
    ask=st.booleans(),
    calls=st.integers(0, 3),
    wrong=st.integers(0, 4),
    data=st.data(),
)
def test_snapshot_and_tail_are_the_whole_fold(
    items: int, failing: set[int], ask: bool, calls: int, wrong: int, data: st.DataObject
) -> None:
    events = _history(items, failing, ask, calls, wrong)
    cut = data.draw(st.integers(1, len(events)), label="cut")
    store = MemoryEventStore(lambda: 0)
    store._runs["run"] = MemoryRun("digest", events=[(0, b"")] * len(events))
    snapshots.keep(store, fold("run", events[:cut]))

    state = snapshots.load(store, "run")
    assert state is not None
    assert state == fold("run", events[:cut])
    for event in events[cut:]:
        evolve(state, event)

    assert state == fold("run", events)
    assert _bytes(state) == _bytes(fold("run", events))


# --- What a process makes of it -------------------------------------------------------------------


class CountingStore(MemoryEventStore):
    def __init__(self) -> None:
        super().__init__(lambda: 1_000)
        self.read_events = 0

    def read(self, run: str, after: int = 0, *, limit: int | None = None) -> list[Envelope]:
        events = super().read(run, after, limit=limit)
        self.read_events += len(events)
        return events


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY_EVENTS", 10)


def _world_of(length: int) -> tuple[CountingStore, int]:
    """A store with a run of real events, at least so long."""
    store = CountingStore()
    world = InMemory(
        code={
            "steps:split": lambda input: {"items": list(range(length)), "ask": False},  # noqa: A006
            "steps:part": lambda item: item,
            "steps:join": lambda part: len(part),
        },
        meddle=lambda _: store,
    )
    world.run(_plan(), {})
    row = store.row("run")
    assert row is not None
    return store, row.version


def _undo(store: MemoryEventStore, version: int) -> None:
    """As if the server had been restored from an older file."""
    del store._runs["run"].events[version:]
    store._runs["run"].phase = "open"


def test_a_process_that_comes_new_reads_the_snapshot_and_the_tail() -> None:
    store, version = _world_of(10)
    assert store.snapshot("run") is not None, "whoever folded has left one"
    store.read_events = 0

    branch = _reached(store, version)

    assert branch == fold("run", MemoryEventStore.read(store, "run"))
    assert store.read_events <= 11, "the snapshot's own event, and what came after it"


def _reached(store: MemoryEventStore, version: int) -> RunState:
    loaded = RunCache(store).fold("run")
    loaded.reach(version)
    return loaded.branch()


def test_one_of_another_fold_or_unreadable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    store, version = _world_of(10)
    whole = fold("run", store.read("run"))
    kept = store.snapshot("run")
    assert kept is not None
    for spoiled in (
        b"garbage",
        zlib.compress(b"{}"),
        zlib.compress(zlib.decompress(kept).replace(snapshots.fold_version().encode(), b"older")),
    ):
        store._snapshots["run"] = (version, 1 << 60, spoiled)
        store.read_events = 0
        assert _reached(store, version) == whole
        assert store.read_events >= version


@pytest.mark.parametrize("regrown", [False, True])
def test_a_server_that_was_set_back_is_noticed(regrown: bool) -> None:
    """A snapshot ahead of the log, or of events that are others by now, is dropped."""
    store, version = _world_of(10)
    ahead = fold("run", store.read("run"))
    store._snapshots.clear()
    snapshots.keep(store, ahead)
    _undo(store, 12)
    if regrown:
        store._runs["run"].phase = "open"
        for number in range(version + 3 - 12):
            event = NewEvent(NodeStarted(), node="split")
            writer = AsFact(f"other{number}")
            store.append(Append(run="run", op=f"other{number}", writer=writer, events=(event,)))
    row = store.row("run")
    assert row is not None

    assert _reached(store, row.version) == fold("run", store.read("run"))


def test_short_runs_ask_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY_EVENTS", 10_000)
    store, version = _world_of(3)
    monkeypatch.setattr(snapshots, "load", lambda *_: pytest.fail("asked"))
    _reached(store, version)
    assert store.snapshot("run") is None


def test_a_state_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_BYTES", 10)
    store, _ = _world_of(10)
    assert store.snapshot("run") is None
