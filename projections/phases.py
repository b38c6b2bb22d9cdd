"""
How far a run has come, for people who watch it: the phases of its plan, and in its repair loops the
rounds, the score and the money.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections.state import Repair, RunState
from mulligan.schemas.plan import RepairPlan

REVIEW = "review"
"""The phase in which what has passed its gates is judged by somebody else."""

_Told = (
    facts.NodeStarted
    | facts.SubagentCalled
    | facts.QualityFailed
    | facts.RepairRoundCompleted
    | facts.DecisionRequested
    | facts.HandedOver
)


class Phases:
    """Says a line, or none, about each event of a run; `state` is what it led to."""

    def __init__(self) -> None:
        self._phase: str | None = None
        self._unknown: Counter[str] = Counter()

    def take(self, state: RunState, event: Envelope) -> str | None:
        """The line about an event."""
        fact, node = event.data, event.node or ""
        if not isinstance(fact, _Told) or state.plan is None:
            return None
        match fact:
            case facts.NodeStarted():
                return self._enter(state.plan_of(node).phase)
            case facts.SubagentCalled():
                repair = state.repairs.get(fact.parent)
                reviewed = repair is not None and repair.open is None
                return self._enter(REVIEW) if reviewed else None
            case facts.QualityFailed():
                return self._enter(state.plan_of(node).phase) if fact.gate == REVIEW else None
            case facts.RepairRoundCompleted():
                self._unknown[node] += fact.cost_usd is None
                return self._round(state, node)
            case facts.DecisionRequested() | facts.HandedOver():
                return self._sum(state, node)
            case _:
                assert_never(fact)

    def _enter(self, phase: str | None) -> str | None:
        if phase is None or phase == self._phase:
            return None
        self._phase = phase
        return f"phase: {phase}"

    def _round(self, state: RunState, node: str) -> str:
        repair, plan = _loop(state, node)
        before, after = repair.drafts[-2].score, repair.drafts[-1].score
        return (
            f"round {repair.rounds} of at most {plan.max_rounds}: "
            f"overall score {before:g} → {after:g}; {self._money(repair, plan, node)}"
        )

    def _sum(self, state: RunState, node: str) -> str:
        repair, plan = _loop(state, node)
        first, last = repair.drafts[0].score, repair.drafts[-1].score
        rounds = "1 round" if repair.rounds == 1 else f"{repair.rounds} rounds"
        return (
            f"overall score {first:g} before repair, {last:g} after {rounds}; "
            f"{self._money(repair, plan, node)}"
        )

    def _money(self, repair: Repair, plan: RepairPlan, node: str) -> str:
        spent = f"${repair.spent_usd:.4f} of ${plan.budget_usd:.2f}"
        if not self._unknown[node]:
            return f"{spent} spent"
        return f"{spent} counted, {self._unknown[node]} by estimate: the cost is not known"


def _loop(state: RunState, node: str) -> tuple[Repair, RepairPlan]:
    plan = state.repair_of(node)
    assert plan is not None
    return state.repairs[node], plan
