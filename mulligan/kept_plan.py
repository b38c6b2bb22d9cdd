"""
What is told to who asks for a run again with another workflow or model: it keeps its own.
"""

from __future__ import annotations

import warnings

from mulligan.schemas.plan import AgentPlan, Plan

__all__ = ["PlanKept", "kept", "warn"]


class PlanKept(UserWarning):
    """
    A run was asked for again, with a workflow or a model that is another by now: it goes on with
    the plan that it began with.
    """


def kept(run: str, began: Plan, now: Plan) -> str | None:
    """What to tell who asked for `now`, of a run that began with another plan; None: nothing."""
    if began.digest == now.digest:
        return None
    return (
        f"run {run!r} was asked for before, and keeps the plan that it began with"
        f"{_models(began, now)}; take another run id to have this one worked"
    )


def warn(told: str) -> None:
    """Tell it as Python does, of the line that called `Client.enqueue`."""
    warnings.warn(told, PlanKept, stacklevel=4)


def _models(began: Plan, now: Plan) -> str:
    before, after = _asked(began), _asked(now)
    changed = [(before[name], after[name]) for name in before.keys() & after.keys()]
    told = {f"{old}, not {new}" for old, new in changed if old != new}
    return f" (model {'; '.join(sorted(told))})" if told else ""


def _asked(plan: Plan) -> dict[str, str | None]:
    """The models of a plan, by who asks them."""
    nodes = {one.id: one.work.model for one in plan.nodes if isinstance(one.work, AgentPlan)}
    return nodes | {f"agents.{name}": agent.model for name, agent in plan.agents.items()}
