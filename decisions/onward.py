"""
What follows from a decision that lets go of its task, where another task would have to decide it:
which nodes a finished one makes ready, and how the first of them begins.

Whoever finishes a node knows the same log as the run's own task. So it decides in its place, in the
same append, and goes on with what comes next: no wake-up, no second append. That holds only for the
very version that was decided on, and while the run's own task waits; else the log refuses it, and
whoever is woken decides (`Append.as_of`).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from mulligan.decisions.decision import CallFunction, Context, Decision, Release, Step
from mulligan.decisions.reactions import reactions
from mulligan.decisions.task import MAX_EVENTS, next_step, tried
from mulligan.events.envelope import NewEvent
from mulligan.events.tasks import parse_task, run_task
from mulligan.projections.run import evolve
from mulligan.projections.state import RunState

MOST_BESIDE = 8
"""
Nodes at work beside the one that ends. Where there are more, the run has moved on before an append
arrives, again and again; its own task then decides for all that ended meanwhile at once.
"""


class _Steps(NamedTuple):
    """What a task decides: events, and the last step, which has an effect or a release."""

    events: tuple[NewEvent, ...]
    last: Step


def onward(state: RunState, task: str, decision: Decision, context: Context) -> Decision:
    """
    A decision of `task` on `state`, with as much of what follows from it as can be decided now, and
    the task to go on with. `state` is not changed.
    """
    if decision.release is None or decision.phase is not None:
        return decision
    branch, whole = state.branch(), decision
    for event in decision.events:
        evolve(branch, tried(branch, event, context))
    run = run_task(state.run)
    if task != run and any(move.task == run for move in decision.moves):
        branch, whole = _with_graph(branch, decision, context, state.version)
    if whole.effect is not None:
        return whole
    follows = next((move for move in whole.moves if move.to in ("ready", "wake")), None)
    if follows is None:
        return whole
    whole = replace(whole, follows=follows.task)
    decided = whole.as_of is not None or task == run
    return _with_first_step(branch, whole, context, state.version) if decided else whole


def _with_graph(
    before: RunState, decision: Decision, context: Context, as_of: int
) -> tuple[RunState, Decision]:
    """
    With what the run's own task would decide, if it would then wait, or carry a function in place;
    and the state after that.
    """
    if before.active > MOST_BESIDE:
        return before, decision
    run, branch = run_task(before.run), before.branch()
    graph = _steps(branch, run, context)
    if graph is None or graph.last.phase is not None:
        return before, decision
    whole = replace(decision, events=(*decision.events, *graph.events), as_of=as_of)
    if graph.last.effect is not None:
        return branch, replace(whole, effect=graph.last.effect, follows=run)
    if graph.last.release != Release("wait"):
        return before, decision
    others = tuple(move for move in decision.moves if move.task != run)
    return branch, replace(whole, moves=(*reactions(branch, graph.events, run), *others))


def _with_first_step(
    branch: RunState, decision: Decision, context: Context, as_of: int
) -> Decision:
    """With the beginning of the task that follows, if it is a node's and calls a function."""
    task = decision.follows or ""
    if parse_task(task)[1] != "node":
        return decision
    first = _steps(branch, task, context)
    if first is None or first.last.effect is None:
        return decision
    events = (*decision.events, *first.events)
    return replace(decision, events=events, effect=first.last.effect, as_of=as_of)


def _steps(branch: RunState, task: str, context: Context) -> _Steps | None:
    """
    What a task does next, `branch` being taken along; None: it is nothing to be decided beforehand.
    A model is asked by the task itself, which may have to wait for its turn.
    """
    events: list[NewEvent] = []
    while len(events) < MAX_EVENTS:
        step = next_step(branch, task, context, None)
        if step.sealed or step.discarded:
            return None
        events += step.events
        for event in step.events:
            evolve(branch, tried(branch, event, context))
        if step.effect is not None and not isinstance(step.effect, CallFunction):
            return None
        if step.effect is not None or step.release is not None:
            return _Steps(tuple(events), step)
    return None
