"""
The graph: which nodes are ready, and when a run ends or has to wait.

Only the run's own task takes these decisions. A node runs when all that it needs has ended, at
least one of it with an output (a node without needs: at once), and its condition holds. It is
skipped when all that it needs was skipped, or when its condition is false; who needs a skipped
node reads null. When a node fails nothing new is started, what runs comes to its end, and the run
fails.
"""

from __future__ import annotations

from mulligan.decisions import scope
from mulligan.decisions.decision import Context, Release, Step
from mulligan.errors import ExpressionFailed
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeReady,
    NodeSkipped,
    PauseReason,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStarted,
    ToolOutcomeUnknown,
    TurnAwaited,
)
from mulligan.events.ids import instance_id
from mulligan.events.payload import Payload
from mulligan.projections.open_requests import open_requests
from mulligan.projections.state import ASKS_A_PERSON, ENDED_NODE, Call, Invocation, Node, RunState
from mulligan.schemas.plan import DEFAULT_TOOL_TIMEOUT_MS, NodePlan

BATCH = 400
"""Events of one step about a run's nodes, well below the store's limit for an append."""

NAMED = 5
"""Of what a run waits for its pause names at most so many."""

PAUSE_ORDER: tuple[PauseReason, ...] = (
    "reconciliation_required",
    "awaiting_input",
    "awaiting_approval",
    "awaiting_decision",
    "context_exceeded",
    "exhausted",
    "parked",
    "operator",
    "awaiting_signal",
)
"""When nodes wait for several reasons, the run shows the one that a person can do most about."""


def advance(state: RunState, context: Context) -> Step:
    """The run's next step, as far as the graph is concerned."""
    if state.ended:
        return Step(release=Release("end"))
    if state.status == "queued":
        return _begin(state, context)
    if state.status == "cancelling":
        return cancel(state, context)
    if state.failed_node is None:
        moved = _start(state, context)
        if moved:
            return Step(moved)
    return _finish(state, context)


def _begin(state: RunState, context: Context) -> Step:
    """The run's start; or its wait, told once, while its tenant may not have another."""
    if context.turn_ms is None:
        return Step((NewEvent(RunStarted()),))
    told = state.tenant is None or state.awaits_turn
    waits = () if told else (NewEvent(TurnAwaited(tenant=state.tenant or "")),)
    return Step(waits, release=Release("timer", context.turn_ms))


def _plan(state: RunState) -> tuple[NodePlan, ...]:
    return state.plan.nodes if state.plan is not None else ()


# --- Starting nodes ------------------------------------------------------------------------------


def _start(state: RunState, context: Context) -> tuple[NewEvent, ...]:
    """What becomes of the nodes that can be decided on now, in one batch."""
    events: list[NewEvent] = []
    for node_id in sorted(state.movable, key=state.movable.__getitem__):
        node = state.nodes[node_id]
        if node.status == "pending":
            events += _decide_pending(state, state.plan_of(node_id), context)
        else:
            events += _fan_out(state, node, context)
        if len(events) >= BATCH:
            return tuple(events)
    return _carry_alone(state, events)


def _decide_pending(state: RunState, plan: NodePlan, context: Context) -> list[NewEvent]:
    if plan.needs and all(state.nodes[need].status == "skipped" for need in plan.needs):
        return [NewEvent(NodeSkipped(because="needs"), node=plan.id)]
    try:
        if not scope.holds(state, plan.id, context.value_of):
            return [NewEvent(NodeSkipped(because="condition"), node=plan.id)]
        if plan.for_each is None:
            return [NewEvent(NodeReady(), node=plan.id)]
        width = len(scope.items(state, plan.id, context.value_of))
    except ExpressionFailed as error:
        return [NewEvent(NodeFailed(code="expression_failed", message=str(error)), node=plan.id)]
    return [NewEvent(NodeReady(fan_out=width), node=plan.id)]


def _fan_out(state: RunState, node: Node, context: Context) -> list[NewEvent]:
    """The next instances of a `for_each` node; its own end once all of them have ended."""
    width = node.fan_out or 0
    if node.readied < width:
        until = min(node.readied + BATCH, width)
        return [
            NewEvent(NodeReady(index=index), node=instance_id(node.id, index))
            for index in range(node.readied, until)
        ]
    if node.done < width:
        return []
    outputs = [
        context.value_of(one.output) for one in state.instances(node.id) if one.output is not None
    ]
    return [NewEvent(NodeCompleted(output=Payload.of(outputs)), node=node.id)]


def _carry_alone(state: RunState, events: list[NewEvent]) -> tuple[NewEvent, ...]:
    """A node that is ready all alone is carried by the run's own task, in place."""
    ready = [i for i, event in enumerate(events) if _is_work(event)]
    # A paused node may be woken while the carried one runs, and would need the run's task.
    if len(ready) == 1 and state.active == 0 and not state.paused:
        at = ready[0]
        fact = events[at].data
        assert isinstance(fact, NodeReady)
        carried = NodeReady(carried=True, index=fact.index)
        events[at] = NewEvent(carried, node=events[at].node)
    return tuple(events)


def _is_work(event: NewEvent) -> bool:
    return isinstance(event.data, NodeReady) and event.data.fan_out is None


# --- Ending and waiting --------------------------------------------------------------------------


def _finish(state: RunState, context: Context) -> Step:
    if state.active:
        return Step(release=Release("wait"))
    if state.failed_node is not None:
        return _fail(state, state.nodes[state.failed_node])
    paused = {node.reason for node in state.nodes.values() if node.status == "paused"}
    if paused:
        return _pause(state, next(reason for reason in PAUSE_ORDER if reason in paused))
    done = NewEvent(RunCompleted(output=Payload.of(_output(state, context))))
    return Step((done,), release=Release("end"), phase="closed")


def _fail(state: RunState, failed: Node) -> Step:
    failure = failed.failure
    assert failure is not None
    last = RunFailed(
        code=failure.kind, message=f"{failed.id}: {failure.message}", failed_node=failed.id
    )
    return _close(_cancel_nodes(state), last)


def _pause(state: RunState, reason: PauseReason) -> Step:
    waiting = Release("wait")
    if state.status == "paused" and state.reason == reason:
        return Step(release=waiting)
    return Step(
        (NewEvent(RunPaused(reason=reason, detail=_waits(state, reason))),), release=waiting
    )


def _waits(state: RunState, reason: PauseReason) -> str:
    """What waits: the first of the questions, or the first nodes."""
    if reason in ASKS_A_PERSON:
        return _first([one.line for one in open_requests(state)], "; ")
    nodes = [node for node in state.nodes.values() if node.reason == reason]
    told = f"node {_first([node.id for node in nodes], ', ')}"
    return f"{told}: {nodes[0].detail}" if len(nodes) == 1 and nodes[0].detail else told


def _first(names: list[str], between: str) -> str:
    return between.join(names[:NAMED]) + (" …" if len(names) > NAMED else "")


def _output(state: RunState, context: Context) -> object:
    """The output of the one node that nothing needs; of several, an object of them by id."""
    needed = {need for plan in _plan(state) for need in plan.needs}
    last = [state.nodes[plan.id] for plan in _plan(state) if plan.id not in needed]
    outputs = {
        node.id: context.value_of(node.output) if node.output is not None else None for node in last
    }
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def cancel(state: RunState, context: Context) -> Step:
    """
    End a run that was asked to: open nodes first. Tools that run are awaited up to their timeout; a
    `write` that leaves no receipt by then is recorded as unknown (REC-27).
    """
    running = [
        (invocation, call)
        for invocation in state.invocations.values()
        for call in invocation.calls.values()
        if call.status == "started" and call.effect is not None
    ]
    waited_ms = context.now_ms - (state.cancel_requested_ms or 0)
    left_ms = max((_timeout_ms(state, *one) for one in running), default=0) - waited_ms
    if left_ms > 0:
        return Step(release=Release("timer", left_ms))
    unknown = [
        NewEvent(ToolOutcomeUnknown(call_id=call.id, evidence="no receipt before the run's end"))
        for _, call in running
        if call.effect == "write"
    ]
    return _close([*unknown, *_cancel_nodes(state)], RunCancelled())


def _close(open_ends: list[NewEvent], last: RunCancelled | RunFailed) -> Step:
    """End a run once nothing of it is open; of very many open ends, some of them first."""
    if len(open_ends) > BATCH:
        return Step(tuple(open_ends[:BATCH]))
    return Step((*open_ends, NewEvent(last)), release=Release("end"), phase="closed")


def _timeout_ms(state: RunState, invocation: Invocation, call: Call) -> int:
    spec = state.tool_of(invocation, call.name)
    return (spec.timeout_ms if spec else None) or DEFAULT_TOOL_TIMEOUT_MS


def _cancel_nodes(state: RunState) -> list[NewEvent]:
    return [
        NewEvent(NodeCancelled(), node=node.id)
        for node in state.nodes.values()
        if node.status not in ENDED_NODE
    ]
