"""
A task's whole decision: steps on a branch of the state until something in the world is to be done,
or the task is released.

Several steps make one append: what a tool came to and the intent of the next request stand in the
log together or not at all.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.decisions import invocation, node, overseer, receipts, repair, run
from mulligan.decisions.decision import (
    AskModel,
    Context,
    Decision,
    ModelOutcome,
    Outcome,
    Release,
    Step,
    ToolOutcome,
)
from mulligan.decisions.reactions import reactions
from mulligan.decisions.slots import wait_in_lane
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.ids import invocation_of_call, node_of_invocation
from mulligan.events.sealed import Sealed
from mulligan.events.store import Move
from mulligan.events.tasks import parse_task
from mulligan.projections.run import evolve
from mulligan.projections.state import ENDED_NODE, Invocation, RunState

MAX_EVENTS = 500
"""A decision is cut here and goes on in a second append; a step adds less than half of it again."""


def decide(
    state: RunState,
    task: str,
    context: Context,
    outcome: Outcome | None = None,
    *,
    record_only: bool = False,
) -> Decision:
    """
    What the holder of `task` has to do, given what its last effect came to. `state` is not changed.
    With `record_only` the outcome is recorded and nothing new is begun; the overseer, who begins
    nothing after its outcome, leaves with it.
    """
    record_only = record_only and parse_task(task)[1] != "overseer"
    branch = state.branch()
    events: list[NewEvent] = []
    sealed: list[Sealed] = []
    discarded: list[str] = []
    while True:
        step = next_step(branch, task, context, outcome)
        if isinstance(step.effect, AskModel) and context.no_slot is not None:
            step = wait_in_lane(branch, task, step.effect, context.no_slot)
        outcome = None
        sealed += step.sealed
        discarded += step.discarded
        for event in step.events:
            events.append(event)
            evolve(branch, tried(branch, event, context))
        if step.effect or step.release or len(events) >= MAX_EVENTS or record_only:
            break
    if step.phase == "closed":
        discarded += overseer.candidates_left(branch)
    moves = reactions(branch, events, task)
    if step.release is not None:
        moves = (*moves, Move(task, step.release.to, step.release.delay_ms))
    return Decision(
        tuple(events),
        moves,
        step.effect,
        step.release,
        step.phase,
        sealed=tuple(sealed),
        discarded=tuple(discarded),
    )


def tried(branch: RunState, event: NewEvent, context: Context) -> Envelope:
    """An event as it would stand in the log next, for `evolve`."""
    version = branch.version + 1
    return Envelope(
        id=f"tried.{version}",
        run=branch.run,
        version=version,
        time_ms=context.now_ms,
        data=event.data,
        node=event.node,
        attempt=event.attempt,
        correlation=branch.correlation,
    )


def next_step(state: RunState, task: str, context: Context, outcome: Outcome | None) -> Step:
    """A task's next step, given what its last effect came to."""
    _, kind, subject = parse_task(task)
    match kind:
        case "run":
            return _run(state, context, outcome)
        case "node":
            return _node(state, subject, context, outcome)
        case "subagent":
            return _subagent(state, state.invocations[subject], context, outcome)
        case "repair":
            return _repair(state, subject, context, outcome)
        case "overseer":
            return _overseer(state, subject, context, outcome)
        case "schedule":
            raise ValueError(f"not a run's: {task!r}")


def _run(state: RunState, context: Context, outcome: Outcome | None) -> Step:
    """The graph's step; or that of the node which the run's own task carries."""
    if state.status == "cancelling" and isinstance(outcome, ToolOutcome):
        return Step((_receipt(state, outcome),))
    carried = state.nodes[state.carried] if state.carried is not None else None
    if carried is None or state.status == "cancelling":
        return run.advance(state, context)
    step = node.work(state, carried, context, outcome)
    if step.release is None or carried.status != "paused":
        return step
    graph = run.advance(state, context)
    # The graph has its say; then the task comes back when the paused node's time is over.
    waits = graph.release is not None and graph.release.to == "wait"
    return replace(graph, release=step.release) if waits else graph


def _stopped(state: RunState, outcome: Outcome | None) -> Step:
    """The run is being cancelled: what a tool came to is kept, and nothing else begins (REC-27)."""
    if isinstance(outcome, ToolOutcome):
        return Step((_receipt(state, outcome),))
    return Step(release=Release("end"))


def _receipt(state: RunState, outcome: ToolOutcome) -> NewEvent:
    caller = state.invocations[invocation_of_call(outcome.call_id)]
    return NewEvent(
        receipts.receipt(outcome), node=node_of_invocation(caller.id), attempt=caller.attempt
    )


def _node(state: RunState, subject: str, context: Context, outcome: Outcome | None) -> Step:
    subject_node = state.nodes[subject]
    if state.status == "cancelling":
        return _stopped(state, outcome)
    if subject_node.status in ENDED_NODE:
        return Step(release=Release("end"))
    return node.work(state, subject_node, context, outcome)


def _repair(state: RunState, subject: str, context: Context, outcome: Outcome | None) -> Step:
    repaired = state.nodes[subject]
    if state.status == "cancelling":
        return _stopped(state, outcome)
    if repaired.status in ENDED_NODE:
        return Step(release=Release("end"))
    return repair.proceed(state, repaired, context, outcome)


def _subagent(
    state: RunState, called: Invocation, context: Context, outcome: Outcome | None
) -> Step:
    if state.status == "cancelling":
        return _stopped(state, outcome)
    if called.ended:
        return Step(release=Release("end"))
    return invocation.proceed(state, called, context, outcome)


def _overseer(state: RunState, subject: str, context: Context, outcome: Outcome | None) -> Step:
    if state.status == "cancelling":
        return _stopped(state, outcome)
    assert outcome is None or isinstance(outcome, ModelOutcome)
    return overseer.proceed(state, subject, context, outcome)
