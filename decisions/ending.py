"""
How an invocation stops, for good or for a while, and the events that say so.
"""

from __future__ import annotations

from mulligan.decisions.decision import Step
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Cause,
    Fact,
    ModelInterrupted,
    NodeFailed,
    NodePaused,
    PauseReason,
    SubagentFailed,
)
from mulligan.events.ids import node_of_invocation
from mulligan.projections.state import Invocation

MAX_INTERRUPTED = 3
"""Requests of one turn that lost workers may leave unanswered before the node is parked."""


def event(invocation: Invocation, fact: Fact) -> NewEvent:
    """A fact about the attempt that an invocation is at."""
    return NewEvent(fact, node=node_of_invocation(invocation.id), attempt=invocation.attempt)


def pause(invocation: Invocation, reason: PauseReason, detail: str) -> NewEvent:
    """The invocation waits for a person, and its node with it."""
    return event(invocation, NodePaused(reason=reason, invocation=invocation.id, detail=detail))


def fail(invocation: Invocation, before: tuple[NewEvent, ...], cause: Cause) -> Step:
    """The end of an invocation that no retry could help: its node fails, or its caller is told."""
    failed: Fact = (
        NodeFailed(code=cause.kind, message=cause.told)
        if invocation.parent is None
        else SubagentFailed(invocation=invocation.id, code=cause.kind, message=cause.told)
    )
    return Step((*before, event(invocation, failed)))


def interrupted(invocation: Invocation) -> Step:
    """A request that a lost worker had sent: asked again under a cap of its own (REC-33)."""
    assert invocation.request is not None
    lost = event(
        invocation,
        ModelInterrupted(request_id=invocation.request.id, invocation=invocation.id),
    )
    if invocation.interrupted + 1 < MAX_INTERRUPTED:
        return Step((lost,))
    detail = f"{MAX_INTERRUPTED} workers in a row were lost during a request of this turn"
    return Step((lost, pause(invocation, "parked", detail)))
