"""
Who has to move when something has happened: from events to the tasks they create or wake.

A task is woken by an entry in the due set, written with the events; the message that follows is
only a hint that it need not wait for the next sweep.
"""

from __future__ import annotations

from collections.abc import Iterable

from mulligan.events import facts
from mulligan.events.envelope import NewEvent
from mulligan.events.ids import invocation_of_call
from mulligan.events.store import Move
from mulligan.events.tasks import (
    TaskKind,
    node_task,
    overseer_task,
    parse_task,
    repair_task,
    run_task,
    subagent_task,
)
from mulligan.projections.state import RunState

ACTORS: dict[TaskKind, str] = {
    "run": "advance_run",
    "node": "run_node",
    "subagent": "run_subagent",
    "overseer": "repair_output",
    "repair": "orchestrate_repair",
    "schedule": "fire_schedule",
}
"""The actor that works a kind of task."""

HINT_GRACE_MS = 1_000
"""How long a task that was just made ready waits for its sender's hint before a sweep sends one."""


def actor_of(task: str) -> str:
    """The name of the actor that works a task."""
    return ACTORS[parse_task(task)[1]]


def reactions(state: RunState, events: Iterable[NewEvent], own: str | None) -> tuple[Move, ...]:
    """
    The moves that events cause, on the state after them; `own` is the writer's task, which needs
    no waking.
    """
    moves: dict[str, Move] = {}
    for event in events:
        found = _moves(state, event) if own is not None else _moves_of_fact(state, event)
        for move in found:
            if move.task != own:
                moves.setdefault(move.task, move)
    return tuple(moves.values())


def _moves(state: RunState, event: NewEvent) -> Iterable[Move]:
    fact = event.data
    run = run_task(state.run)
    match fact:
        case facts.NodeReady(carried=False, fan_out=None):
            yield Move(node_task(state.run, event.node or ""), "ready", HINT_GRACE_MS)
        case facts.SubagentCalled():
            yield Move(subagent_task(state.run, fact.invocation), "ready", HINT_GRACE_MS)
        case facts.OutputRepairRequested():
            task = overseer_task(state.run, fact.invocation, event.attempt or 1)
            yield Move(task, "ready", HINT_GRACE_MS)
        case facts.OutputRepairSucceeded() | facts.OutputRepairFailed():
            yield _wake(state.worker_of(fact.invocation))
        case facts.QualityFailed():
            yield Move(repair_task(state.run, event.node or ""), "ready", HINT_GRACE_MS)
        case facts.SubagentCompleted() | facts.SubagentFailed():
            yield _wake(state.worker_of(invocation_of_call(fact.invocation)))
            yield from _overseers(state, fact.invocation)
        case (
            facts.NodeCompleted() | facts.NodeFailed() | facts.NodePaused() | facts.NodeCancelled()
        ):
            yield _wake(run)
            yield from _overseers(state, event.node or "")
        case _:
            return


def _overseers(state: RunState, invocation_id: str) -> Iterable[Move]:
    """
    Those that work for an agent that has ended, or for agents that it called: what they come to
    must not be recorded before they have read that (OVR-9).
    """
    invocation = state.invocations.get(invocation_id)
    if invocation is None:
        return
    repair = invocation.output_repair
    if repair is not None and repair.open and invocation.ended:
        yield _wake(overseer_task(state.run, invocation.id, repair.attempt))
    for call in invocation.calls.values():
        if call.effect is None:
            yield from _overseers(state, call.id)


def _moves_of_fact(state: RunState, event: NewEvent) -> Iterable[Move]:
    """What a fact from outside any task moves: the run, and whoever waited for it."""
    fact = event.data
    run = run_task(state.run)
    match fact:
        case facts.RunRequested():
            yield Move(run, "ready", HINT_GRACE_MS)
        case facts.RunCancelRequested():
            yield _wake(run)
        case facts.RunResumed():
            yield _wake(run)
            yield from _wake_resumed(state, fact.target)
        case (
            facts.EffectReconciled()
            | facts.ToolApproved()
            | facts.ToolDenied()
            | facts.ToolSucceeded()
            | facts.ToolFailed()
            | facts.ToolOutcomeUnknown()
            | facts.ToolReceiptArrived()
        ):
            yield _wake(state.worker_of(invocation_of_call(fact.call_id)))
            yield _wake(run)
        case facts.InputProvided():
            yield _wake(state.worker_of(invocation_of_call(fact.request_id)))
            yield _wake(run)
        case facts.DecisionMade():
            yield _wake(state.worker_of(event.node or ""))
        case facts.SignalReceived():
            taken_by = state.signals[fact.key].taken_by
            if taken_by is not None:
                yield _wake(state.worker_of(taken_by))
                yield _wake(run)
        case _:
            return


def _wake_resumed(state: RunState, target: str | None) -> Iterable[Move]:
    """Whoever may go on in the node that a resume is meant for, or in any."""
    whole = target is None
    agents = state.invocations.values() if whole else state.agents_of(target or "")
    for invocation in agents:
        if invocation.status == "active":
            yield _wake(state.worker_of(invocation.id))
    for node_id in state.nodes if whole else (target or "",):
        node = state.nodes.get(node_id)
        if node is not None and node.status in ("ready", "running") and node.fan_out is None:
            yield _wake(state.worker_of(node.id))


def _wake(task: str) -> Move:
    return Move(task, "wake", HINT_GRACE_MS)
