"""The overseer is the same wherever an agent works, and leaves nothing behind (OVR-1, OVR-10)."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.events import facts
from mulligan.events.ids import overseen
from mulligan.events.tasks import overseer_task
from mulligan.projections.history import problems
from mulligan.projections.usage import fold as fold_usage
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.quality.report import Gate
from mulligan.quality.report import judged as report
from mulligan.schemas.plan import AgentPlan, CodeRef, NodePlan, Plan, PluginPlan, RepairPlan
from mulligan.settings import RequestLimit
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CANARY = "canary-8814"
REPAIRED = '{"repaired_arguments": {"output": {"n": 1}}}'
LIMITS = {"openai": RequestLimit(concurrent=1)}


def plugin(path: str, *arguments: str) -> PluginPlan:
    return PluginPlan(call=CodeRef(path=path, digest=""), arguments=arguments)


def agent(**more: Any) -> AgentPlan:
    fields: dict[str, Any] = {
        "prompt": "Count.",
        "model": "openai/m",
        "output_schema": SCHEMA,
        "recovery_limit": 2,
    }
    return AgentPlan(**(fields | more))


PARTS = {"decompose": plugin("toy:split", "input"), "join": plugin("toy:join", "parts")}
REPAIR = RepairPlan(
    draft="input",
    gates=plugin("toy:gates"),
    rework=plugin("toy:rework", "draft", "stages"),
    agents=("c",),
)
CALLS_C = {"c": agent(subagents=("d",)), "d": agent()}
PLACES: dict[str, tuple[Plan, Any, list[str]]] = {
    "nodes side by side": (
        plan_of(*(NodePlan(id=name, work=agent()) for name in "ab")),
        None,
        ["a", "b"],
    ),
    "items of a for_each": (
        plan_of(NodePlan(id="a", work=agent(), for_each="input")),
        [1, 2, 3],
        ["a[0]", "a[1]", "a[2]"],
    ),
    "called agents that call": (
        plan_of(NodePlan(id="a", work=agent(subagents=("c",))), agents=CALLS_C),
        None,
        ["a", "a.1.1", "a.1.1.1.1"],
    ),
    "parts of divided work": (
        plan_of(
            NodePlan(id="a", work=agent(**PARTS)), context_window=100_000, max_output_tokens=1_000
        ),
        ["x", "y"],
        ["a.1.1", "a.1.2"],
    ),
    "agents of a repair loop": (
        plan_of(NodePlan(id="a", work=REPAIR), agents={"c": agent()}),
        {"score": 10},
        ["a.1.1", "a.1.2"],
    ),
}


def gates(draft: dict[str, Any]) -> Any:
    score = draft["score"]
    gate = Gate(passed=score >= 80, score=score, metric=score, direction="higher", threshold=80.0)
    return report({"taste": gate})


def rework(draft: dict[str, Any], stages: list[Any]) -> Any:
    if not stages:
        return {"form": "jobs", "jobs": [{"agent": "c", "input": one} for one in ("x", "y")]}
    return {"form": "redone", "draft": {"score": 90}}


CODE = {
    "toy:split": lambda input: input,  # noqa: A006 - the argument's name
    "toy:join": lambda parts: {"n": len(parts)},
    "toy:gates": gates,
    "toy:rework": rework,
}


def said(request: ModelRequest) -> Any:
    """Agents that may call do, once; whole work that can be divided is cut off; then: malformed."""
    rounds = sum(message.role == "tool" for message in request.messages)
    names = {tool.name for tool in request.tools}
    if "call_subagent" in names and not rounds:
        callee = "d" if "." in request.request_id else "c"
        call = ToolCall("c", "call_subagent", f'{{"subagent": "{callee}", "input": "x"}}')
        return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))
    if (request.messages[1].content or "").startswith("Count.") and request.parameters.get(
        "max_tokens"
    ):
        return Answer(finish_reason="length", terminal=True, text="")
    return {"n": CANARY}


@pytest.mark.parametrize("limits", [{}, LIMITS], ids=["unlimited", "one slot"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", PLACES)
def test_ovr1_the_overseer_works_for_agents_in_any_place(
    place: str, seed: int, limits: dict[str, RequestLimit]
) -> None:
    plan, given, invocations = PLACES[place]
    provider = ScriptedProvider([said] * 20, [REPAIRED] * 20)
    world = InMemory(provider=provider, code=CODE, seed=seed, limits=limits)

    state = world.run(plan, given)

    events = world.events()
    assert ("completed", []) == (state.status, problems(events))
    repaired = [e.data for e in events if isinstance(e.data, facts.OutputRepairSucceeded)]
    assert invocations == sorted(fact.invocation for fact in repaired)
    assert len(invocations) == fold_usage("run", events).overseer["m"].requests
    assert CANARY not in repr(events) + repr(state)
    for name in invocations:
        assert world.store.sealed(overseer_task("run", name, 1)) is None
    assert invocations == sorted(filter(None, (_overseen(one) for one in provider.requests)))


def _overseen(request: ModelRequest) -> str | None:
    return overseen(request.request_id.rpartition("#")[0])
