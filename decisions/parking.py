"""
What becomes of a task that can't go on for a reason that no decision names: its run is parked, with
the reason, until an operator has seen to it.
"""

from __future__ import annotations

from mulligan.decisions import overseer
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import Fact, NodePaused, RunPaused
from mulligan.events.ids import node_of_invocation
from mulligan.events.tasks import parse_task
from mulligan.projections.state import ENDED_NODE, RunState


def parked(state: RunState, task: str, detail: str) -> tuple[NewEvent, ...]:
    """
    The events that park what `task` works: its node, or the run itself. The overseer parks nothing:
    it has failed, and the original error stands.
    """
    _, kind, subject = parse_task(task)
    if kind == "overseer":
        return overseer.given_up(state, subject)
    invocation = (state.carried or "") if kind == "run" else subject
    node = state.nodes.get(node_of_invocation(invocation))
    pause: Fact = RunPaused(reason="parked", detail=detail)
    if node is None:
        return (NewEvent(pause),)
    if node.status in ENDED_NODE:
        return ()
    paused = NodePaused(reason="parked", invocation=invocation, detail=detail)
    events = (NewEvent(paused, node=node.id, attempt=node.attempt or None),)
    return (*events, NewEvent(pause)) if kind == "run" else events
