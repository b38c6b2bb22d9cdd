"""
Runs of tenants in one world: they wait and are not failed, in turns, told in the log once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.actors.slots import THOUGHT_OF_OUTPUT, thought_of, tokens_taken
from mulligan.decisions import people
from mulligan.errors import InvalidInput, TenantQueueFull
from mulligan.events.facts import (
    AllowanceReserved,
    Cause,
    ModelRequested,
    RunStarted,
    SlotAwaited,
    TurnAwaited,
    Usage,
)
from mulligan.events.slots import Load
from mulligan.events.tasks import run_task
from mulligan.events.tenants import RUNS, TenantLimits, check_tenant, packed, unpacked
from mulligan.projections.run_view import RunView, view
from mulligan.projections.trace import fold as fold_trace
from mulligan.providers.port import Answer, Failure, Message, ModelRequest
from mulligan.schemas.builder import Workflow
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.plan import Plan
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider

SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Reporting(ScriptedProvider):
    """Says that each answer took 6,000 tokens."""

    def ask(self, *arguments: Any, **options: Any) -> Any:
        answer = super().ask(*arguments, **options)
        assert isinstance(answer, Answer)
        return replace(answer, usage=Usage(prompt_tokens=5_000, completion_tokens=1_000))


def asking() -> Plan:
    flow = Workflow("asking", model="scripted/any")
    flow.agent("say", prompt="{input}", output=SHAPE)
    return compile_plan(flow.definition())


def steps() -> Plan:
    flow = Workflow("steps")
    flow.function("one", _one)
    return compile_plan(flow.definition())


def _one(input: Any) -> Any:  # noqa: A002 - the field's name
    return input


def world_of(provider: Any = None, **limits: Any) -> InMemory:
    world = InMemory(provider=provider)
    for tenant, one in limits.items():
        world.slots.limit(tenant, packed(TenantLimits(**one)))
    return world


def request(world: InMemory, run: str, tenant: str | None, plan: Plan) -> None:
    world.store.append(people.request(run, f"op-{run}", plan, 1, tenant=tenant))


def occupied(world: InMemory, looks: int, then: Callable[[], object]) -> InMemory:
    """The world, with the one place of tenant a taken by another run until so many looks."""
    world.slots.limit("a", packed(TenantLimits(runs=1)))
    world.slots.keep(RUNS, "a/other", hold_ms=0, tenant="a")
    take, seen = world.slots.take, []

    def counted(*arguments: Any, **options: Any) -> Any:
        seen.append(arguments)
        if len(seen) == looks:
            then()
        return take(*arguments, **options)

    world.slots.take = counted  # type: ignore[method-assign]
    return world


def give_back(world: InMemory) -> None:
    world.slots.give_back(RUNS, "a/other", tenant="a")


def test_a_run_that_has_to_wait_says_why_once_and_goes_on_by_itself() -> None:
    world = InMemory()
    shown: list[RunView] = []

    def look_and_give_back() -> None:
        shown.append(view(world.state("late"), lambda payload: None))
        give_back(world)

    occupied(world, 4, look_and_give_back)
    request(world, "late", "a", steps())
    world.work()

    assert (shown[0].status, shown[0].tenant) == ("queued", "a")
    assert "tenant a has as many runs at once" in shown[0].waits
    assert world.state("late").status == "completed"
    assert view(world.state("late"), lambda payload: None).waits == ""
    facts = [event.data for event in world.events("late")]
    assert sum(isinstance(fact, TurnAwaited) for fact in facts) == 1
    assert any("tenant a has" in one.text for one in fold_trace("late", world.events("late")).steps)
    assert world.slots.loads()["tenant/a/runs"] == Load(held=0, waiting=0, paused_ms=0)


def test_a_run_that_waits_for_its_turn_can_be_cancelled() -> None:
    world = InMemory()

    def cancel() -> None:
        append = people.cancel(world.state("late"), "cancel")
        assert append is not None
        world.store.append(append)
        world.wake(run_task("late"))

    occupied(world, 3, cancel)
    request(world, "late", "a", steps())
    world.work()

    assert world.state("late").status == "cancelled"
    assert world.slots.loads()["tenant/a/runs"].waiting == 0
    assert not [e for e in world.events("late") if isinstance(e.data, RunStarted)]


def test_a_run_that_waits_for_a_person_leaves_its_place_and_takes_it_again() -> None:
    flow = Workflow("asking", model="scripted/any")
    flow.agent("say", prompt="{input}", output=SHAPE, recovery_limit=0)
    cut = Answer(finish_reason="length", terminal=True, text="")
    world = world_of(ScriptedProvider([cut, {"n": 1}]), a={"runs": 1})
    request(world, "run", "a", compile_plan(flow.definition()))
    world.work()
    assert world.state().status == "paused"
    assert world.slots.loads()["tenant/a/runs"].held == 0
    kept = []
    keep = world.slots.keep
    world.slots.keep = lambda *a, **o: (kept.append(a), keep(*a, **o))  # type: ignore

    world.store.append(people.resume(world.state(), "resume"))
    world.work()

    assert world.state().status == "completed"
    assert [arguments[1] for arguments in kept] == ["a/run"]
    assert world.slots.loads()["tenant/a/runs"].held == 0


def test_requests_of_a_tenant_wait_for_its_limit_and_cost_nothing_of_the_allowance() -> None:
    flow = Workflow("wide", model="scripted/any")
    flow.agent("part", prompt="{item}", for_each="input", output=SHAPE)
    world = world_of(ScriptedProvider([{"n": 1}] * 30), a={"per_minute": 60})
    plan = compile_plan(flow.definition())
    world.store.append(people.request("run", "op", plan, list(range(30)), tenant="a"))

    world.work()

    assert world.state().status == "completed"
    facts = [event.data for event in world.events()]
    asked = [e.time_ms for e in world.events() if isinstance(e.data, ModelRequested)]
    assert sum(asked[0] <= at < asked[0] + 20_000 for at in asked) <= 6 + 19
    assert asked[-1] - asked[0] > 20_000
    assert {f.tenant for f in facts if isinstance(f, SlotAwaited)} == {"a"}
    assert not [fact for fact in facts if isinstance(fact, AllowanceReserved)]


def test_a_tenant_that_spends_its_tokens_waits_until_there_are_more() -> None:
    """6,000 a minute, and each answer reports as many, whatever was thought."""
    world = world_of(Reporting([{"n": 1}] * 3), a={"tokens_per_minute": 6_000})
    for n in range(3):
        request(world, f"a{n}", "a", asking())

    world.work()

    logs = [event for n in range(3) for event in world.events(f"a{n}")]
    asked = sorted(e.time_ms for e in logs if isinstance(e.data, ModelRequested))
    assert len(asked) == 3
    assert min(b - a for a, b in pairwise(asked)) > 50_000


def test_limits_survive_being_packed() -> None:
    limits = TenantLimits(runs=3, requests="none", queued=7)

    assert unpacked(packed(limits)) == limits
    assert limits.over(TenantLimits(runs=1, per_minute=5)).per_minute == 5
    assert limits.number("requests") is None


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "x" * 65, "ä", "a\n", "*", None, 7])
def test_what_can_not_be_a_tenant_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match="can't be a tenant"):
        check_tenant(name)


def test_what_a_request_is_thought_to_take_is_its_texts_and_what_it_allows() -> None:
    request = ModelRequest(
        request_id="a#1", model="scripted/any", messages=(Message(role="user", content="x" * 300),)
    )
    free = ScriptedProvider([]).prepare(request)

    assert thought_of(free) == 100 + 4 + THOUGHT_OF_OUTPUT


def test_what_a_request_took_is_what_was_reported_or_unknown() -> None:
    usage = Usage(prompt_tokens=7, completion_tokens=3)
    answer = Answer(finish_reason="stop", terminal=True, text="", usage=usage)
    refused = Failure(cause=Cause(kind="rate_limited", message="", status=429), transient=True)
    cut_off = Failure(cause=Cause(kind="connection", message=""), transient=True)

    assert tokens_taken(answer) == 10
    assert tokens_taken(Answer(finish_reason="stop", terminal=True, text="")) is None
    assert tokens_taken(refused) == 0
    assert tokens_taken(cut_off) is None


def test_a_full_line_says_what_to_do() -> None:
    assert "mulligan tenants set acme --queued N" in str(TenantQueueFull("acme", 1_000))
