"""
REC-34: limits of providers are kept by waiting; it is no failure, reserves nothing and ends with
the run's own limits and cancellations.
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.actors.slots import UNKNOWN_AGAIN_MS, RequestSlot, SlotKeeper
from mulligan.decisions import people
from mulligan.decisions.decision import NoSlot
from mulligan.errors import StoreUnavailable
from mulligan.events.facts import AllowanceReserved, Cause, ModelRequested, SlotAwaited
from mulligan.events.memory_slots import MemorySlots
from mulligan.events.slots import Lane, Load
from mulligan.events.tasks import run_task
from mulligan.projections.trace import fold as fold_trace
from mulligan.providers.lanes import Lanes
from mulligan.providers.port import Answer, Failure, ModelRequest, ToolCall
from mulligan.schemas.builder import Workflow
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.plan import AgentPlan, NodePlan, Plan
from mulligan.schemas.tool_spec import ToolSpec
from mulligan.settings import RequestLimit
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.result import success

SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RATE = {"scripted": RequestLimit(per_minute=60)}
ONE = {"scripted": RequestLimit(concurrent=1)}
LANE = Lane(name="scripted", concurrent=1)


def fan_out(**options: Any) -> Plan:
    """A workflow that asks a model once for each item of its input."""
    flow = Workflow("wide", model="scripted/any", **options)
    flow.agent("part", prompt="{item}", for_each="input", output=SHAPE)
    return compile_plan(flow.definition())


class Clocked(ScriptedProvider):
    """Notes when it was asked."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(answers)
        self.asked_at: list[int] = []
        self.world: InMemory | None = None

    def ask(self, prepared: Any, cancellation: Any, hear: Any = None) -> Any:
        assert self.world is not None
        self.asked_at.append(self.world.now_ms)
        return super().ask(prepared, cancellation)


def world_of(provider: Clocked, **options: Any) -> InMemory:
    provider.world = InMemory(provider=provider, **options)
    return provider.world


def test_rec_34_a_rate_is_kept_over_minutes_and_everything_is_asked() -> None:
    provider = Clocked([{"n": 1}] * 200)
    world = world_of(provider, limits=RATE)

    state = world.run(fan_out(), list(range(200)))

    assert state.status == "completed"
    at = provider.asked_at
    assert len(at) == 200
    assert max(sum(begin <= one < begin + 60_000 for one in at) for begin in at) <= 60
    assert 3 * 60_000 <= at[-1] - at[0] < 4 * 60_000


def test_rec_34_waiting_is_told_once_and_reserves_nothing() -> None:
    provider = Clocked([{"n": 1}] * 20)
    world = world_of(provider, limits=RATE)

    state = world.run(fan_out(), list(range(20)))

    facts = [event.data for event in world.events()]
    assert sum(isinstance(fact, SlotAwaited) for fact in facts) == 14
    assert not [fact for fact in facts if isinstance(fact, AllowanceReserved)]
    assert {one.recovery.used for one in state.invocations.values()} == {0}
    lines = [step.text for step in fold_trace("run", world.events()).steps]
    assert lines.count("waits for a slot of scripted") == 14


def occupied(world: InMemory, for_ms: int) -> InMemory:
    """The world, with its only slot held by somebody else."""
    world.slots.take(LANE, "somebody else", "other token", hold_ms=for_ms)
    return world


def test_rec_34_a_slot_is_held_before_a_request_is_announced() -> None:
    """Without one there is no `ModelRequested`: nothing could count as interrupted."""
    world = occupied(world_of(Clocked([{"n": 1}] * 3), limits=ONE), 60_000)

    state = world.run(fan_out(), [1, 2, 3])

    assert state.status == "completed"
    assert len(of(world, SlotAwaited)) == 3
    requested = [e for e in world.events() if isinstance(e.data, ModelRequested)]
    assert len(requested) == 3
    assert min(e.time_ms for e in requested) >= 61_000
    assert world.slots.loads()["scripted"] == Load(held=0, waiting=0, paused_ms=0)


def test_rec_18_a_deadline_counts_while_a_slot_is_waited_for() -> None:
    world = occupied(world_of(Clocked([]), limits=ONE), 3_600_000)

    state = world.run(fan_out(deadline="45s"), [1, 2])

    assert state.failure is not None
    assert state.failure.kind == "deadline_exceeded"
    assert world.now_ms == 1_000 + 45_000
    assert not of(world, ModelRequested)
    assert world.slots.loads()["scripted"].waiting == 0


def test_rec_27_a_run_is_cancelled_while_it_waits_for_a_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = occupied(world_of(Clocked([]), limits=ONE), 3_600_000)
    take, looks = world.slots.take, []

    def cancelled_at_the_fifth(*arguments: Any, **options: Any) -> Any:
        looks.append(arguments)
        if len(looks) == 5:
            request = people.cancel(world.state(), "cancel-it")
            assert request is not None
            world.store.append(request)
            world.wake(run_task("run"))
        return take(*arguments, **options)

    monkeypatch.setattr(world.slots, "take", cancelled_at_the_fifth)

    state = world.run(fan_out(), [1, 2])

    assert state.status == "cancelled"
    assert len(looks) == 5
    assert not of(world, ModelRequested)


def test_rec_34_a_tools_result_is_recorded_though_the_next_request_has_to_wait() -> None:
    class Look:
        """Somebody else takes the slot while it runs."""

        def call(self, arguments: Any, *, key: str | None, context: Any = None) -> Any:
            occupied(world, 30_000)
            return success("seen")

    called = Answer(
        finish_reason="tool_calls", terminal=True, text="", calls=(ToolCall("c1", "look", "{}"),)
    )
    provider = Clocked([called, {"n": 1}])
    world = world_of(provider, limits=ONE, code={"tools:look": Look()})
    spec = ToolSpec(
        name="look", description="", parameters={}, effect="write", path="tools:look", digest=""
    )
    agent = AgentPlan(
        prompt="Look.",
        model="scripted/any",
        output_schema=SHAPE,
        recovery_limit=0,
        tools=(spec.path,),
    )

    state = world.run(plan_of(NodePlan(id="a", work=agent), tools={spec.path: spec}))

    assert state.status == "completed"
    types = [event.type for event in world.events()]
    assert types.index("ToolSucceeded") < types.index("SlotAwaited")
    assert provider.asked_at == [1_000, 31_000]


def test_rec_34_retry_after_makes_all_wait_instead_of_the_one() -> None:
    """The others would be told the same, each at the cost of its own allowance."""
    cause = Cause(kind="rate_limited", message="too many requests", status=429)
    slow_down = Failure(cause=cause, transient=True, retry_after_ms=20_000)
    provider = Clocked([slow_down, *[{"n": 1}] * 5])
    world = world_of(provider, limits=ONE)

    state = world.run(fan_out(), [1, 2, 3, 4, 5])

    assert state.status == "completed"
    assert len(of(world, AllowanceReserved)) == 1
    assert provider.asked_at[0] == 1_000
    assert min(provider.asked_at[1:]) >= 21_000


def of(world: InMemory, kind: type) -> list[Any]:
    return [event.data for event in world.events() if isinstance(event.data, kind)]


class Away(MemorySlots):
    """Slots whose server does not answer."""

    def take(self, *_: Any, **__: Any) -> Any:
        raise StoreUnavailable("no connection")


@pytest.mark.parametrize("patient", [True, False])
def test_rec_34_a_task_waits_for_slots_that_are_away_and_a_call_says_so(patient: bool) -> None:
    """A run outlives its server's absence; who called outside any run is told."""
    keeper = SlotKeeper(Away(lambda: 0), Lanes(ONE), lambda called: True, hold_ms=1_000)
    slot = RequestSlot(keeper, "waiter", "token", patient=patient)
    request = ModelRequest(request_id="a#1", model="scripted/any", messages=())
    prepared = ScriptedProvider([]).prepare(request)

    if patient:
        assert slot.take(prepared, None) == NoSlot("scripted", UNKNOWN_AGAIN_MS)
    else:
        with pytest.raises(StoreUnavailable):
            slot.take(prepared, None)
