"""What a history of repair is held to: planted faults are found (RPR-6, RPR-9, RPR-13)."""

from __future__ import annotations

import pytest

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact
from mulligan.events.payload import Payload
from mulligan.projections.repair_history import RepairCheck
from mulligan.schemas.plan import CodeRef, NodePlan, PluginPlan, RepairPlan, plan_to_dict
from mulligan.testing.given import plan_of

PLUGIN = PluginPlan(call=CodeRef(path="toy:any", digest=""), arguments=())
PLAN = plan_of(
    NodePlan(
        id="polish",
        work=RepairPlan(draft="input", gates=PLUGIN, rework=PLUGIN, max_rounds=3, budget_usd=1.0),
    )
)


def requested() -> Fact:
    return facts.RunRequested(
        workflow=PLAN.name,
        workflow_version=PLAN.version,
        digest=PLAN.digest,
        plan=plan_to_dict(PLAN),
        input=Payload.of(None),
    )


def started(iteration: int, level: int = 1, estimate_usd: float = 0.1) -> Fact:
    return facts.RepairRoundStarted(
        iteration=iteration, level=level, trigger="taste", estimate_usd=estimate_usd
    )


def completed(iteration: int, cost_usd: float | None = 0.1) -> Fact:
    return facts.RepairRoundCompleted(
        iteration=iteration, level=1, score_before=1, score_after=2, cost_usd=cost_usd
    )


def judged(passed: bool) -> Fact:
    nothing = Payload.of(None)
    return facts.QualityAssessed(
        iteration=0, draft="d", passed=passed, score=1, quality=nothing, content=nothing
    )


def called() -> Fact:
    return facts.SubagentCalled(
        invocation="polish.1.1",
        parent="polish",
        agent="writer",
        provider_id="polish.1.1",
        input=Payload.of(None),
    )


def ended() -> Fact:
    return facts.SubagentCompleted(invocation="polish.1.1", output=Payload.of(None))


def found(*given: Fact, node: str = "polish") -> list[str]:
    check = RepairCheck()
    for version, fact in enumerate((requested(), *given), start=1):
        check.take(
            Envelope(
                id=f"e{version}", run="run", version=version, time_ms=version, data=fact, node=node
            )
        )
    return [problem.told.partition(": ")[2] for problem in check.found]


def test_a_sound_loop_has_no_problem() -> None:
    rounds = (started(1), called(), ended(), completed(1), started(2, 2), completed(2, None))

    assert found(judged(False), *rounds, judged(True)) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((started(2),), "round 2 follows round 0"),
        ((started(1), completed(1), started(1)), "round 1 follows round 1"),
        ((started(1, 3), completed(1), started(2, 2)), "level 2 follows level 3"),
        ((judged(True), started(1)), "the draft had passed"),
        ((started(1), started(2), started(3), started(4)), "round 4 of at most 3"),
        ((started(1), completed(1, 0.95), started(2)), "$1.05 of at most $1"),
        ((started(1, 1, 0.95), completed(1, None), started(2)), "$1.05 of at most $1"),
        ((called(), called()), "agent polish.1.1 was called before"),
        ((ended(),), "agent polish.1.1 was not called, or had ended"),
        ((called(), ended(), ended()), "agent polish.1.1 was not called, or had ended"),
    ],
)
def test_what_can_not_be_is_found(given: tuple[Fact, ...], told: str) -> None:
    assert found(*given) == [told]


def test_a_round_of_a_node_that_repairs_nothing_is_found() -> None:
    assert found(started(1), node="write") == ["node write repairs nothing"]
