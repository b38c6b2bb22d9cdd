"""How far a run has come, in words: phases, rounds, score and money."""

from __future__ import annotations

import msgspec

from mulligan.events.envelope import Envelope
from mulligan.projections.phases import Phases
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState
from mulligan.quality.report import Gate, Quality, judged
from mulligan.schemas.plan import (
    AgentPlan,
    CodeRef,
    FunctionPlan,
    NodePlan,
    PluginPlan,
    RepairPlan,
)
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider


def gates(draft: int) -> Quality:
    gate = Gate(passed=draft >= 80, score=draft, metric=draft, direction="higher", threshold=80)
    return judged({"taste": gate})


def rework(draft: int) -> dict[str, object]:
    return {"form": "redone", "draft": min(draft + 40, 100)}


def function(node: str, phase: str | None, *needs: str) -> NodePlan:
    call = FunctionPlan(
        call=CodeRef(path="toy:make", digest=""),
        arguments=(),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    return NodePlan(id=node, work=call, phase=phase, needs=needs)


def told(*verdicts: str) -> list[str]:
    """What is said of a run that makes a 50, repairs and reviews it, and publishes."""
    plug_ins = {
        name: PluginPlan(call=CodeRef(path=f"toy:{name}", digest=""), arguments=("draft",))
        for name in ("gates", "rework")
    }
    polish = NodePlan(
        id="polish",
        needs=("make",),
        phase="optimize",
        work=RepairPlan(draft="make", reviewer="critic", **plug_ins),
    )
    critic = AgentPlan(
        prompt="judge", output_schema={"type": "object"}, recovery_limit=0, model="m/m"
    )
    world = InMemory(
        provider=ScriptedProvider([{"verdict": one, "would_change": ["it"]} for one in verdicts]),
        code={"toy:make": lambda: 50, "toy:gates": gates, "toy:rework": rework},
    )
    nodes = (function("make", "plan"), polish, function("out", "publish", "polish"))
    world.run(plan_of(*nodes, agents={"critic": critic}))
    phases, state = Phases(), RunState(run="run")
    return [line for event in world.events() if (line := one(phases, state, event)) is not None]


def one(phases: Phases, state: RunState, event: Envelope) -> str | None:
    evolve(state, event)
    return phases.take(state, event)


def test_phases_rounds_score_and_money_are_told_as_they_come() -> None:
    assert told("approved") == [
        "phase: plan",
        "phase: optimize",
        "round 1 of at most 4: overall score 50 → 90; $0.0000 of $2.50 spent",
        "phase: review",
        "overall score 50 before repair, 90 after 1 round; $0.0000 of $2.50 spent",
        "phase: publish",
    ]


def test_a_rejected_review_leads_back_to_the_phase_before() -> None:
    lines = [line for line in told("rejected", "approved") if line.startswith("phase")]

    assert lines == [
        "phase: plan",
        "phase: optimize",
        "phase: review",
        "phase: optimize",
        "phase: review",
        "phase: publish",
    ]


def test_a_workflow_without_phases_is_told_of_by_its_rounds_alone() -> None:
    world = InMemory(code={"toy:make": lambda: 50})
    world.run(plan_of(msgspec.structs.replace(function("make", None), id="make")))
    phases, state = Phases(), RunState(run="run")

    assert [one(phases, state, event) for event in world.events()] == [None] * len(world.events())
