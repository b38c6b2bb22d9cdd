"""
The fold of a run: `evolve` takes a state one event further.

It trusts the log: whatever an event says has happened. A fact that comes late or twice (a receipt
after the run has ended, an answer that was already given) changes nothing that is settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause
from mulligan.projections import (
    allowance,
    calls,
    graph,
    invocations,
    nodes,
    output_repairs,
    repairs,
    signals,
)
from mulligan.projections.changes import Changes, goes_on, put_node, registering, unpause
from mulligan.projections.state import Invocation, Node, RunState
from mulligan.schemas.plan import plan_from_dict

CHANGES: Changes = {
    **nodes.CHANGES,
    **invocations.CHANGES,
    **calls.CHANGES,
    **output_repairs.CHANGES,
    **repairs.CHANGES,
    **signals.CHANGES,
}
"""What each kind of fact changes; facts without an entry change nothing here."""

on = registering(CHANGES)


def fold(run: str, events: Iterable[Envelope]) -> RunState:
    """The state of `run` after `events`, from its first one on."""
    state = RunState(run=run)
    for event in events:
        evolve(state, event)
    return state


def evolve(state: RunState, event: Envelope) -> None:
    """Take `state` to the version of `event`, in place."""
    change = CHANGES.get(type(event.data))
    if change is not None:
        change(state, event, event.data)
    state.version = event.version
    state.last_event = event.id


@on(facts.RunRequested)
def _requested(state: RunState, event: Envelope, fact: facts.RunRequested) -> None:
    plan = plan_from_dict(fact.plan)
    state.plan = plan
    state.workflow = fact.workflow
    state.input = fact.input
    state.tags = fact.tags
    state.priority = fact.priority
    state.origin_window = fact.origin_window
    state.tenant = fact.tenant
    state.correlation = event.correlation
    state.requested_ms = event.time_ms
    graph.begin(state, plan)


@on(facts.TurnAwaited)
def _turn_awaited(state: RunState, event: Envelope, fact: facts.TurnAwaited) -> None:
    state.awaits_turn = state.status == "queued"


@on(facts.RunStarted)
def _started(state: RunState, event: Envelope, fact: facts.RunStarted) -> None:
    state.status, state.awaits_turn = "running", False
    state.started_ms = event.time_ms


@on(facts.RunPaused)
def _paused(state: RunState, event: Envelope, fact: facts.RunPaused) -> None:
    if state.status in ("queued", "running"):
        state.status, state.reason, state.detail = "paused", fact.reason, fact.detail
        state.was_paused = True


@on(facts.RunResumed)
def _resumed(state: RunState, event: Envelope, fact: facts.RunResumed) -> None:
    goes_on(state)
    for invocation in _agents(state, fact.target):
        if invocation.reason in allowance.RESUMABLE:
            fresh = allowance.resume(invocation.recovery)
            resumed = replace(invocation, recovery=fresh, interrupted=0, resends=0)
            unpause(state, resumed, event.time_ms)
    for node in _nodes(state, fact.target):
        if node.status == "paused" and node.reason == "parked":
            began = node.started_ms is not None
            put_node(state, replace(node, status="running" if began else "ready", reason=None))


@on(facts.RunForked)
def _forked(state: RunState, event: Envelope, fact: facts.RunForked) -> None:
    """What was under way in the other run began there, and keeps the keys it had."""
    state.forked_from, state.forked_at = fact.parent, fact.at_version
    for node in list(state.nodes.values()):
        if node.status in ("running", "retrying", "paused") and node.begun_in is None:
            put_node(state, replace(node, begun_in=fact.parent))


def _agents(state: RunState, node: str | None) -> list[Invocation]:
    """The invocations of one node, or all."""
    return list(state.invocations.values()) if node is None else state.agents_of(node)


def _nodes(state: RunState, node: str | None) -> list[Node]:
    """One node, if there is one of that id, or all."""
    if node is None:
        return list(state.nodes.values())
    return [state.nodes[node]] if node in state.nodes else []


@on(facts.RunCancelRequested)
def _cancel_requested(state: RunState, event: Envelope, fact: facts.RunCancelRequested) -> None:
    if not state.ended:
        state.status, state.reason, state.detail = "cancelling", None, fact.reason
        state.cancel_requested_ms = event.time_ms


@on(facts.RunCancelled)
def _cancelled(state: RunState, event: Envelope, fact: facts.RunCancelled) -> None:
    _end(state, event, "cancelled")


@on(facts.RunCompleted)
def _completed(state: RunState, event: Envelope, fact: facts.RunCompleted) -> None:
    _end(state, event, "completed")
    state.output = fact.output


@on(facts.RunFailed)
def _failed(state: RunState, event: Envelope, fact: facts.RunFailed) -> None:
    _end(state, event, "failed")
    state.failure = Cause(kind=fact.code, message=fact.message)


def _end(state: RunState, event: Envelope, status: Any) -> None:
    state.status, state.reason, state.detail = status, None, ""
    state.ended_ms = event.time_ms
    state.carried = None
