"""
What facts about nodes change in a run's state.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause
from mulligan.events.ids import template_of
from mulligan.projections import repairs
from mulligan.projections.changes import (
    Changes,
    cancel_agents,
    node_of,
    put_node,
    registering,
    settle,
)
from mulligan.projections.state import (
    ENDED_NODE,
    Invocation,
    Node,
    Recovery,
    RunState,
)
from mulligan.schemas.plan import AgentPlan, FunctionPlan, RepairPlan

CHANGES: Changes = {}
on = registering(CHANGES)


@on(facts.NodeReady)
def _ready(state: RunState, event: Envelope, fact: facts.NodeReady) -> None:
    node = Node(
        id=event.node or "",
        status="running" if fact.fan_out is not None else "ready",
        carried=fact.carried,
        index=fact.index,
        fan_out=fact.fan_out,
        cause=event.id,
        started_ms=event.time_ms if fact.fan_out is not None else None,
    )
    put_node(state, node)
    if fact.carried:
        state.carried = node.id
    if fact.index is not None:
        template = state.nodes[template_of(node.id)]
        put_node(state, replace(template, readied=template.readied + 1))


@on(facts.NodeStarted)
def _node_started(state: RunState, event: Envelope, fact: facts.NodeStarted) -> None:
    node = node_of(state, event)
    started = node.started_ms if node.started_ms is not None else event.time_ms
    work = state.plan_of(node.id).work
    writes = isinstance(work, FunctionPlan) and work.effect == "write"
    put_node(
        state,
        replace(
            node,
            status="running",
            attempt=event.attempt or 1,
            started_ms=started,
            timer_due_ms=None,
            write_starts=(*node.write_starts, event.id) if writes else (),
        ),
    )
    if isinstance(work, RepairPlan):
        repairs.begin(state, node.id, event.time_ms)
    if isinstance(work, AgentPlan) and node.id not in state.invocations:
        recovery = Recovery(invocation_id=node.id, limit=work.recovery_limit)
        state.invocations[node.id] = Invocation(
            id=node.id, recovery=recovery, since_ms=event.time_ms
        )


@on(facts.NodeCompleted)
def _node_completed(state: RunState, event: Envelope, fact: facts.NodeCompleted) -> None:
    node = node_of(state, event)
    if node.status not in ENDED_NODE:
        put_node(
            state, replace(node, status="completed", output=fact.output, ended_ms=event.time_ms)
        )
        if node.id in state.invocations and state.function_of(node.id) is not None:
            settle(state, node.id, "completed")


@on(facts.NodeFailed)
def _node_failed(state: RunState, event: Envelope, fact: facts.NodeFailed) -> None:
    node = node_of(state, event)
    if node.status not in ENDED_NODE:
        failure = Cause(kind=fact.code, message=fact.message)
        put_node(state, replace(node, status="failed", failure=failure, ended_ms=event.time_ms))
        state.failed_node = state.failed_node or node.id
        settle(state, node.id, "failed")
        cancel_agents(state, node.id)


@on(facts.NodePaused)
def _node_paused(state: RunState, event: Envelope, fact: facts.NodePaused) -> None:
    node = node_of(state, event)
    put_node(state, replace(node, status="paused", reason=fact.reason, detail=fact.detail))
    invocation = state.invocations.get(fact.invocation)
    if invocation is not None:
        recovery = replace(invocation.recovery, phase="paused")
        state.invocations[invocation.id] = replace(
            invocation, status="paused", reason=fact.reason, recovery=recovery
        )


@on(facts.NodeCancelled)
def _node_cancelled(state: RunState, event: Envelope, fact: facts.NodeCancelled) -> None:
    node = node_of(state, event)
    if node.status not in ENDED_NODE:
        put_node(state, replace(node, status="cancelled", ended_ms=event.time_ms))
    cancel_agents(state, node.id)


@on(facts.NodeSkipped)
def _node_skipped(state: RunState, event: Envelope, fact: facts.NodeSkipped) -> None:
    put_node(state, replace(node_of(state, event), status="skipped", ended_ms=event.time_ms))


@on(facts.TimerSet)
def _timer_set(state: RunState, event: Envelope, fact: facts.TimerSet) -> None:
    due = event.time_ms + fact.delay_ms
    if fact.invocation is not None:
        _set_timer(state, fact.invocation, due)
        return
    node = node_of(state, event)
    put_node(state, replace(node, status="retrying", timer_due_ms=due, failure=fact.cause))


@on(facts.TimerFired)
def _timer_fired(state: RunState, event: Envelope, fact: facts.TimerFired) -> None:
    if fact.invocation is not None:
        _set_timer(state, fact.invocation, None)
        return
    put_node(state, replace(node_of(state, event), timer_due_ms=None))


def _set_timer(state: RunState, invocation_id: str, due_ms: int | None) -> None:
    invocation = state.invocations[invocation_id]
    state.invocations[invocation_id] = replace(invocation, timer_due_ms=due_ms)
