"""
The fold of a run: `evolve` takes a state one event further.

It trusts the log: whatever an event says has happened. A fact that comes late or twice (a receipt
after the run has ended, an answer that was already given) changes nothing that is settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause, Fact, RetryReason
from mulligan.events.ids import invocation_of_call, node_of_invocation, template_of
from mulligan.projections import allowance
from mulligan.projections.state import (
    ACTIVE_NODE,
    ANSWERED_CALL,
    ENDED_NODE,
    Call,
    Invocation,
    Node,
    NodeStatus,
    Recovery,
    Request,
    RunState,
    Trouble,
    Turn,
)
from mulligan.schemas.plan import AgentPlan, plan_from_dict

NO_EFFECT = "the effect did not take place"
"""What the caller of a call is told that was reconciled as failed."""

FactT = TypeVar("FactT", bound=Fact)
Evolve = Callable[[RunState, Envelope, Any], None]

_EVOLVE: dict[type[Fact], Evolve] = {}


def fold(run: str, events: Iterable[Envelope]) -> RunState:
    """The state of `run` after `events`, from its first one on."""
    state = RunState(run=run)
    for event in events:
        evolve(state, event)
    return state


def evolve(state: RunState, event: Envelope) -> None:
    """Take `state` to the version of `event`, in place."""
    change = _EVOLVE.get(type(event.data))
    if change is not None:
        change(state, event, event.data)
    state.version = event.version
    state.last_event = event.id


def on(*kinds: type[Fact]) -> Callable[[Evolve], Evolve]:
    """Register what a kind of fact changes; facts without an entry change nothing here."""

    def register(change: Evolve) -> Evolve:
        for kind in kinds:
            _EVOLVE[kind] = change
        return change

    return register


# --- Run -----------------------------------------------------------------------------------------


@on(facts.RunRequested)
def _requested(state: RunState, event: Envelope, fact: facts.RunRequested) -> None:
    plan = plan_from_dict(fact.plan)
    state.plan = plan
    state.workflow = fact.workflow
    state.input = fact.input
    state.tags = fact.tags
    state.correlation = event.correlation
    state.requested_ms = event.time_ms
    state.nodes = {node.id: Node(id=node.id) for node in plan.nodes}


@on(facts.RunStarted)
def _started(state: RunState, event: Envelope, fact: facts.RunStarted) -> None:
    state.status = "running"
    state.started_ms = event.time_ms


@on(facts.RunPaused)
def _paused(state: RunState, event: Envelope, fact: facts.RunPaused) -> None:
    if state.status in ("queued", "running"):
        state.status, state.reason, state.detail = "paused", fact.reason, fact.detail


@on(facts.RunResumed)
def _resumed(state: RunState, event: Envelope, fact: facts.RunResumed) -> None:
    _goes_on(state)
    for invocation in list(state.invocations.values()):
        if invocation.reason in allowance.RESUMABLE and (
            fact.target in (None, node_of_invocation(invocation.id))
        ):
            fresh = allowance.resume(invocation.recovery)
            goes_on = replace(invocation, recovery=fresh, interrupted=0, resends=0)
            _unpause(state, goes_on, event.time_ms)
    for node in list(state.nodes.values()):
        if node.status == "paused" and node.reason == "parked" and fact.target in (None, node.id):
            _put(state, replace(node, status="running", reason=None))


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


def _goes_on(state: RunState) -> None:
    if state.status == "paused":
        state.status, state.reason, state.detail = "running", None, ""


# --- Nodes ---------------------------------------------------------------------------------------


def _put(state: RunState, node: Node) -> None:
    """Replace a node; the count of active ones follows, and its template's of ended ones."""
    before = state.nodes.get(node.id)
    was = before.status if before is not None else "pending"
    state.nodes[node.id] = node
    if node.fan_out is None:
        state.active += (node.status in ACTIVE_NODE) - (was in ACTIVE_NODE)
    if was not in ENDED_NODE and node.status in ENDED_NODE:
        if state.carried == node.id:
            state.carried = None
        if state.is_instance(node.id):
            template = state.nodes[template_of(node.id)]
            state.nodes[template.id] = replace(template, done=template.done + 1)


def _node(state: RunState, event: Envelope) -> Node:
    """The node that an event is about."""
    return state.nodes[event.node or ""]


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
    _put(state, node)
    if fact.carried:
        state.carried = node.id
    if fact.index is not None:
        template = state.nodes[template_of(node.id)]
        state.nodes[template.id] = replace(template, readied=template.readied + 1)


@on(facts.NodeStarted)
def _node_started(state: RunState, event: Envelope, fact: facts.NodeStarted) -> None:
    node = _node(state, event)
    started = node.started_ms if node.started_ms is not None else event.time_ms
    _put(
        state,
        replace(
            node,
            status="running",
            attempt=event.attempt or 1,
            started_ms=started,
            timer_due_ms=None,
        ),
    )
    agent = state.plan_of(node.id).work
    if isinstance(agent, AgentPlan) and node.id not in state.invocations:
        recovery = Recovery(invocation_id=node.id, limit=agent.recovery_limit)
        state.invocations[node.id] = Invocation(
            id=node.id, recovery=recovery, since_ms=event.time_ms
        )


@on(facts.NodeCompleted)
def _node_completed(state: RunState, event: Envelope, fact: facts.NodeCompleted) -> None:
    node = _node(state, event)
    if node.status not in ENDED_NODE:
        _put(state, replace(node, status="completed", output=fact.output, ended_ms=event.time_ms))


@on(facts.NodeFailed)
def _node_failed(state: RunState, event: Envelope, fact: facts.NodeFailed) -> None:
    node = _node(state, event)
    if node.status not in ENDED_NODE:
        failure = Cause(kind=fact.code, message=fact.message)
        _put(state, replace(node, status="failed", failure=failure, ended_ms=event.time_ms))
        state.failed_node = state.failed_node or node.id
        _settle(state, node.id, "failed")
        _cancel_agents(state, node.id)


@on(facts.NodePaused)
def _node_paused(state: RunState, event: Envelope, fact: facts.NodePaused) -> None:
    node = _node(state, event)
    _put(state, replace(node, status="paused", reason=fact.reason))
    invocation = state.invocations.get(fact.invocation)
    if invocation is not None:
        recovery = replace(invocation.recovery, phase="paused")
        state.invocations[invocation.id] = replace(
            invocation, status="paused", reason=fact.reason, recovery=recovery
        )


@on(facts.NodeCancelled)
def _node_cancelled(state: RunState, event: Envelope, fact: facts.NodeCancelled) -> None:
    node = _node(state, event)
    if node.status not in ENDED_NODE:
        _put(state, replace(node, status="cancelled", ended_ms=event.time_ms))
    _cancel_agents(state, node.id)


def _cancel_agents(state: RunState, node_id: str) -> None:
    """What a node's agents still do is of no use to anybody once the node has ended (REC-27)."""
    for invocation in list(state.invocations.values()):
        if node_of_invocation(invocation.id) == node_id:
            _settle(state, invocation.id, "cancelled")


@on(facts.NodeSkipped)
def _node_skipped(state: RunState, event: Envelope, fact: facts.NodeSkipped) -> None:
    _put(state, replace(_node(state, event), status="skipped", ended_ms=event.time_ms))


@on(facts.TimerSet)
def _timer_set(state: RunState, event: Envelope, fact: facts.TimerSet) -> None:
    due = event.time_ms + fact.delay_ms
    if fact.invocation is not None:
        _set_timer(state, fact.invocation, due)
        return
    node = _node(state, event)
    _put(state, replace(node, status="retrying", timer_due_ms=due, failure=fact.cause))


@on(facts.TimerFired)
def _timer_fired(state: RunState, event: Envelope, fact: facts.TimerFired) -> None:
    if fact.invocation is not None:
        _set_timer(state, fact.invocation, None)
        return
    _put(state, replace(_node(state, event), timer_due_ms=None))


def _set_timer(state: RunState, invocation_id: str, due_ms: int | None) -> None:
    invocation = state.invocations[invocation_id]
    state.invocations[invocation_id] = replace(invocation, timer_due_ms=due_ms)


# --- Invocations ---------------------------------------------------------------------------------


def _settle(state: RunState, invocation_id: str, status: Any) -> None:
    """End an invocation, if there is one of that id that has not ended."""
    invocation = state.invocations.get(invocation_id)
    if invocation is None or invocation.status in ("completed", "failed", "cancelled"):
        return
    recovery = allowance.recovered(invocation.recovery)
    if status == "cancelled":
        recovery = replace(recovery, phase="cancelled")
    state.invocations[invocation_id] = replace(
        invocation, status=status, reason=None, request=None, timer_due_ms=None, recovery=recovery
    )


def _unpause(state: RunState, invocation: Invocation, now_ms: int) -> None:
    """Let an invocation go on, and its node with it unless another of its agents still waits."""
    recovery = replace(invocation.recovery, phase="active")
    state.invocations[invocation.id] = replace(
        invocation, status="active", reason=None, since_ms=now_ms, recovery=recovery
    )
    node = state.nodes[node_of_invocation(invocation.id)]
    if node.status == "paused":
        still = [
            other.reason
            for other in state.invocations.values()
            if other.status == "paused" and node_of_invocation(other.id) == node.id
        ]
        paused = replace(node, reason=still[0]) if still else None
        _put(state, paused or replace(node, status="running", reason=None))


@on(facts.ModelRequested)
def _model_requested(state: RunState, event: Envelope, fact: facts.ModelRequested) -> None:
    invocation = state.invocations[fact.invocation]
    attempt = event.attempt or invocation.attempt
    request = Request(
        id=fact.request_id,
        turn=fact.turn,
        attempt=attempt,
        mode=fact.mode,
        cap=fact.sent.get("max_tokens") or fact.sent.get("max_completion_tokens"),
    )
    recovery = allowance.dispatch(invocation.recovery, fact.request_id, attempt)
    state.invocations[invocation.id] = replace(
        invocation, request=request, attempt=attempt, recovery=recovery
    )


@on(facts.ModelAnswered)
def _model_answered(state: RunState, event: Envelope, fact: facts.ModelAnswered) -> None:
    invocation = state.invocations[fact.invocation]
    turns = invocation.turns
    if invocation.request is not None and fact.calls:
        turn = Turn(
            number=invocation.request.turn,
            attempt=invocation.request.attempt,
            text=fact.text,
            calls=tuple(call.call_id for call in fact.calls),
        )
        turns = (*turns, turn)
    useful = bool(fact.calls)
    state.invocations[invocation.id] = replace(
        invocation,
        request=None,
        interrupted=0,
        turns=turns,
        issues=(),
        retry_of=None if useful else fact.request_id,
        trouble=None if useful else invocation.trouble,
        # A response without an end is no success of the transport: nothing is given back for it.
        resends=invocation.resends if fact.terminal else 0,
        recovery=allowance.recovered(invocation.recovery) if useful else invocation.recovery,
    )
    _show_phase(state, invocation.id)


@on(facts.ModelFailed)
def _model_failed(state: RunState, event: Envelope, fact: facts.ModelFailed) -> None:
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(
        invocation, request=None, retry_of=fact.request_id, interrupted=0
    )


@on(facts.ModelInterrupted)
def _model_interrupted(state: RunState, event: Envelope, fact: facts.ModelInterrupted) -> None:
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(
        invocation,
        request=None,
        retry_of=fact.request_id,
        interrupted=invocation.interrupted + 1,
    )


@on(facts.HistoryCompacted)
def _history_compacted(state: RunState, event: Envelope, fact: facts.HistoryCompacted) -> None:
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(
        invocation, compacted=(*invocation.compacted, *fact.call_ids)
    )


@on(facts.AllowanceReserved)
def _reserved(state: RunState, event: Envelope, fact: facts.AllowanceReserved) -> None:
    invocation = state.invocations[fact.invocation]
    recovery = allowance.evolve(invocation.recovery, event)
    if recovery is invocation.recovery:
        return
    invocation = replace(invocation, recovery=recovery, attempt=fact.next_attempt)
    resends = invocation.resends + 1 if fact.reason == "transport" else 0
    state.invocations[invocation.id] = replace(
        _troubled(invocation, fact.reason, fact.cause), resends=resends
    )
    _show_phase(state, invocation.id)


@on(facts.AllowanceRefunded)
def _refunded(state: RunState, event: Envelope, fact: facts.AllowanceRefunded) -> None:
    invocation = state.invocations[fact.invocation]
    recovery = allowance.evolve(invocation.recovery, event)
    state.invocations[invocation.id] = replace(invocation, recovery=recovery, resends=0)
    _show_phase(state, invocation.id)


@on(facts.AllowanceExhausted)
def _exhausted(state: RunState, event: Envelope, fact: facts.AllowanceExhausted) -> None:
    invocation = state.invocations[fact.invocation]
    recovery = allowance.evolve(invocation.recovery, event)
    invocation = replace(invocation, recovery=recovery, resends=0)
    state.invocations[invocation.id] = _troubled(invocation, fact.reason, fact.cause)


def _troubled(invocation: Invocation, reason: RetryReason, cause: Cause | None) -> Invocation:
    """Transport is no trouble of the model's: the same request is sent again as it was."""
    if reason == "transport":
        return invocation
    message = cause.message if cause is not None else ""
    trouble = Trouble(reason=reason, message=message, issues=invocation.issues)
    return replace(invocation, trouble=trouble)


def _show_phase(state: RunState, invocation_id: str) -> None:
    """A node is `retrying` while its own agent is, and shows that agent's attempt (REC-9)."""
    node = state.nodes.get(invocation_id)
    if node is not None and node.status in ("running", "retrying"):
        invocation = state.invocations[invocation_id]
        retrying = invocation.recovery.phase == "retrying"
        status: NodeStatus = "retrying" if retrying else "running"
        _put(state, replace(node, status=status, attempt=invocation.attempt))


@on(facts.OutputRejected)
def _output_rejected(state: RunState, event: Envelope, fact: facts.OutputRejected) -> None:
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(invocation, issues=fact.issues)


@on(facts.OutputAccepted)
def _output_accepted(state: RunState, event: Envelope, fact: facts.OutputAccepted) -> None:
    _settle(state, fact.invocation, "completed")


# --- Tools and subagents -------------------------------------------------------------------------


def _put_call(state: RunState, call: Call) -> None:
    invocation = state.invocations[invocation_of_call(call.id)]
    state.invocations[invocation.id] = replace(
        invocation, calls={**invocation.calls, call.id: call}
    )


def _call(state: RunState, call_id: str) -> Call:
    return state.invocations[invocation_of_call(call_id)].calls[call_id]


@on(facts.ToolRequested)
def _tool_requested(state: RunState, event: Envelope, fact: facts.ToolRequested) -> None:
    _put_call(
        state,
        Call(
            id=fact.call_id,
            name=fact.tool,
            provider_id=fact.provider_id,
            arguments=fact.arguments,
            effect=fact.effect,
            key=fact.key,
        ),
    )


@on(facts.ToolStarted)
def _tool_started(state: RunState, event: Envelope, fact: facts.ToolStarted) -> None:
    call = _call(state, fact.call_id)
    _put_call(state, replace(call, status="started", executions=fact.execution))


@on(facts.ToolSucceeded)
def _tool_succeeded(state: RunState, event: Envelope, fact: facts.ToolSucceeded) -> None:
    call = _call(state, fact.call_id)
    if call.status not in ANSWERED_CALL:
        _put_call(state, replace(call, status="succeeded", result=fact.result, error=None))
        _reconciled_pause(state, fact.call_id, event.time_ms)


@on(facts.ToolFailed)
def _tool_failed(state: RunState, event: Envelope, fact: facts.ToolFailed) -> None:
    call = _call(state, fact.call_id)
    if call.status not in ANSWERED_CALL:
        error = Cause(kind=fact.code, message=fact.message)
        _put_call(state, replace(call, status="failed", error=error))
        _reconciled_pause(state, fact.call_id, event.time_ms)


@on(facts.ToolOutcomeUnknown)
def _tool_unknown(state: RunState, event: Envelope, fact: facts.ToolOutcomeUnknown) -> None:
    call = _call(state, fact.call_id)
    if call.status not in ANSWERED_CALL:
        _put_call(state, replace(call, status="unknown"))


@on(facts.EffectReconciled)
def _reconciled(state: RunState, event: Envelope, fact: facts.EffectReconciled) -> None:
    if is_lost_function(state, fact.call_id):
        _goes_on(state)
        status: NodeStatus = "ready" if fact.outcome == "retry" else "running"
        _put(state, replace(state.nodes[fact.call_id], status=status, reason=None))
    if fact.call_id in state.nodes:
        return
    call = _call(state, fact.call_id)
    if call.status != "unknown":
        return
    if fact.outcome == "retry":
        _put_call(state, replace(call, status="requested"))
    elif fact.outcome == "succeeded":
        _put_call(state, replace(call, status="succeeded", result=fact.result))
    else:
        error = Cause(kind="reconciled_as_failed", message=NO_EFFECT)
        _put_call(state, replace(call, status="failed", error=error))
    _reconciled_pause(state, fact.call_id, event.time_ms)


def is_lost_function(state: RunState, node: str) -> bool:
    """Whether a function node waits for somebody to say what became of its call."""
    found = state.nodes.get(node)
    return (
        found is not None
        and (found.status, found.reason) == ("paused", "reconciliation_required")
        and state.function_of(node) is not None
    )


def _reconciled_pause(state: RunState, call_id: str, now_ms: int) -> None:
    """What waited for this call's outcome goes on, once no other call of it is unknown."""
    invocation = state.invocations[invocation_of_call(call_id)]
    unknown = any(call.status == "unknown" for call in invocation.calls.values())
    if invocation.reason == "reconciliation_required" and not unknown:
        _goes_on(state)
        _unpause(state, invocation, now_ms)


@on(facts.SubagentCalled)
def _subagent_called(state: RunState, event: Envelope, fact: facts.SubagentCalled) -> None:
    _put_call(
        state,
        Call(
            id=fact.invocation,
            name=fact.agent,
            provider_id=fact.provider_id,
            arguments=fact.input,
            status="started",
        ),
    )
    plan = state.plan.agents[fact.agent] if state.plan else None
    recovery = Recovery(
        invocation_id=fact.invocation,
        parent_id=fact.parent,
        limit=plan.recovery_limit if plan else 0,
    )
    state.invocations[fact.invocation] = Invocation(
        id=fact.invocation,
        recovery=recovery,
        agent=fact.agent,
        input=fact.input,
        since_ms=event.time_ms,
    )


@on(facts.SubagentCompleted)
def _subagent_completed(state: RunState, event: Envelope, fact: facts.SubagentCompleted) -> None:
    _put_call(state, replace(_call(state, fact.invocation), status="succeeded", result=fact.output))


@on(facts.SubagentFailed)
def _subagent_failed(state: RunState, event: Envelope, fact: facts.SubagentFailed) -> None:
    error = Cause(kind=fact.code, message=fact.message)
    _put_call(state, replace(_call(state, fact.invocation), status="failed", error=error))
    _settle(state, fact.invocation, "failed")
