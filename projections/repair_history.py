"""
What must be true of the repair loops in any run's history, whatever happened to its workers.
"""

from __future__ import annotations

from dataclasses import dataclass

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.ids import template_of
from mulligan.projections.problem import Invariant, Problem
from mulligan.schemas.plan import RepairPlan, plan_from_dict

A_ROUNDING = 1e-6
"""Dollars that sums of dollars may differ by."""


@dataclass
class _Loop:
    """Of one node: its last round, what it has cost, and whether its newest draft passed."""

    iteration: int = 0
    level: int = 0
    estimate_usd: float = 0.0
    spent_usd: float = 0.0
    passed: bool = False


class RepairCheck:
    """
    Rounds are counted by one and bounded by their node's rounds and money, at levels that never go
    down; none begins on a draft that passed; an agent is called, and ends, once.
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._plans: dict[str, RepairPlan] = {}
        self._loops: dict[str, _Loop] = {}
        self._called: dict[str, bool] = {}
        """of an agent: whether it has ended"""

    def take(self, event: Envelope) -> None:
        """Look at one more event."""
        loop = self._loops.setdefault(event.node or "", _Loop())
        match event.data:
            case facts.RunRequested(plan=plan):
                nodes = plan_from_dict(plan).nodes
                self._plans = {n.id: n.work for n in nodes if isinstance(n.work, RepairPlan)}
            case facts.SubagentCalled(invocation=invocation):
                if invocation in self._called:
                    self._say(event, f"agent {invocation} was called before")
                self._called[invocation] = False
            case facts.SubagentCompleted() | facts.SubagentFailed() as fact:
                if self._called.get(fact.invocation, True):
                    self._say(event, f"agent {fact.invocation} was not called, or had ended")
                self._called[fact.invocation] = True
            case facts.QualityAssessed(passed=passed):
                loop.passed = passed
            case facts.RepairRoundStarted() as fact:
                self._started(event, fact, loop)
            case facts.RepairRoundCompleted(cost_usd=cost_usd):
                loop.spent_usd += cost_usd if cost_usd is not None else loop.estimate_usd
            case _:
                pass

    def _started(self, event: Envelope, fact: facts.RepairRoundStarted, loop: _Loop) -> None:
        if fact.iteration != loop.iteration + 1:
            back = fact.iteration <= loop.iteration
            self._say(
                event,
                f"round {fact.iteration} follows round {loop.iteration}",
                "allowance_reset" if back else "history_impossible",
            )
        if fact.level < loop.level:
            self._say(event, f"level {fact.level} follows level {loop.level}")
        if loop.passed and fact.trigger != "review":
            self._say(event, "the draft had passed")
        self._within_bounds(event, fact, loop)
        loop.iteration, loop.level, loop.estimate_usd = (
            fact.iteration,
            fact.level,
            fact.estimate_usd,
        )
        loop.passed = False

    def _within_bounds(self, event: Envelope, fact: facts.RepairRoundStarted, loop: _Loop) -> None:
        plan = self._plans.get(template_of(event.node or ""))
        if plan is None:
            self._say(event, f"node {event.node} repairs nothing")
            return
        if fact.iteration > plan.max_rounds:
            over = f"round {fact.iteration} of at most {plan.max_rounds}"
            self._say(event, over, "allowance_exceeded")
        may_cost = loop.spent_usd + fact.estimate_usd
        if may_cost > plan.budget_usd + A_ROUNDING:
            over = f"${may_cost:g} of at most ${plan.budget_usd:g}"
            self._say(event, over, "allowance_exceeded")

    def _say(
        self, event: Envelope, problem: str, invariant: Invariant = "history_impossible"
    ) -> None:
        told = f"event {event.version} ({event.type}): {problem}"
        self.found.append(Problem(invariant, told, event.run))
