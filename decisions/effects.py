"""
Tool calls: which one comes next, and what to make of one that left no receipt (REC-31).
"""

from __future__ import annotations

from typing import assert_never

from mulligan.decisions import asking
from mulligan.decisions.decision import (
    Context,
    ObservedOutcome,
    ObserveTool,
    Release,
    RunTool,
    Step,
    ToolOutcome,
)
from mulligan.decisions.receipts import receipt
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    EffectReconciled,
    Fact,
    NodePaused,
    ToolOutcomeUnknown,
    ToolStarted,
)
from mulligan.events.ids import node_of_invocation
from mulligan.events.payload import Payload
from mulligan.projections.state import Call, Invocation, RunState
from mulligan.schemas.run_context import RunContext

VERIFIED = "verify"
"""Who reconciled a call that its tool's own observation has settled."""
SEEN = {"outcome": "succeeded", "note": "seen to have taken effect; what it returned was lost"}
"""What the model is told as the result of such a call."""


def next_call(state: RunState, invocation: Invocation, context: Context) -> Step | None:
    """
    The next tool call of the invocation to run, one after another in the order they were made.

    Whoever asks holds the invocation's lease and runs nothing: a call that has started and has no
    result was left by a lost worker. A `read` or `idempotent` one is run again, with the same key;
    a `write` is never repeated on its own. One that waits for a person holds up those after it.
    """
    for call in invocation.calls.values():
        if call.effect is None:
            continue
        if call.status == "started" and call.effect == "write":
            return _lost(state, invocation, call)
        if call.status in ("awaiting_input", "awaiting_approval"):
            return Step((_event(invocation, asking.waits(invocation, call)),))
        if call.status == "unknown":
            return _open(state, invocation, call, context)
        if call.status in ("requested", "started"):
            return _start(state, invocation, call, context)
    return None


def unsettled(invocation: Invocation) -> bool:
    """Whether a `write` has begun whose outcome is not known: that is seen to first."""
    return any(
        call.effect == "write" and call.status in ("started", "unknown")
        for call in invocation.calls.values()
    )


def returned(state: RunState, invocation: Invocation, outcome: ToolOutcome) -> Step:
    """
    What follows from what a tool came to. Writes of which the log had lost the start are for a
    person to look at; only of the very same call its tool's own observation may be asked.
    """
    call = invocation.calls[outcome.call_id]
    events = [_event(invocation, one) for one in outcome.lost]
    events.append(_event(invocation, receipt(outcome)))
    same = all(
        (one.call_id, one.digest) == (call.id, call.arguments.digest) for one in outcome.lost
    )
    if outcome.lost and not (same and _verifiable(state, invocation, call)):
        detail = outcome.error.message if outcome.error is not None else ""
        events.append(_event(invocation, _asks(invocation, detail)))
    return Step(tuple(events))


def _start(state: RunState, invocation: Invocation, call: Call, context: Context) -> Step:
    spec = state.tool_of(invocation, call.name)
    assert spec is not None
    execution = call.executions + 1
    started = ToolStarted(call_id=call.id, execution=execution)
    effect = RunTool(
        call.id,
        spec,
        context.value_of(call.arguments),
        call.key,
        execution,
        call.effect or spec.effect,
        run_context(state, call.id, invocation.id),
    )
    return Step((_event(invocation, started),), effect=effect)


def run_context(state: RunState, call: str, owner: str) -> RunContext:
    """What a tool or function is told of its run."""
    assert state.plan is not None
    return RunContext(
        run=state.run,
        call=call,
        owner=owner,
        origin_window=state.origin_window,
        web=state.plan.settings.web,
        requested_ms=state.requested_ms,
        read_roots=state.plan.read_roots,
    )


def _lost(state: RunState, invocation: Invocation, call: Call) -> Step:
    evidence = "its worker was lost after the start was recorded and before a result was"
    unknown = _event(invocation, ToolOutcomeUnknown(call_id=call.id, evidence=evidence))
    if _verifiable(state, invocation, call):
        return Step((unknown,))
    return Step((unknown, _reconcile(invocation, call)))


def _verifiable(state: RunState, invocation: Invocation, call: Call) -> bool:
    spec = state.tool_of(invocation, call.name)
    return spec is not None and spec.verifiable


def _open(state: RunState, invocation: Invocation, call: Call, context: Context) -> Step:
    """
    A call of unknown outcome: the tool's own observation is asked first, then a person. What is
    still being done can't be observed, so a worker that may be at it is awaited.
    """
    spec = state.tool_of(invocation, call.name)
    if spec is None or not spec.verifiable:
        return Step((_reconcile(invocation, call),))
    if context.others_end_in_ms > 0:
        return Step(release=Release("timer", context.others_end_in_ms))
    arguments = context.value_of(call.arguments)
    told = run_context(state, call.id, invocation.id)
    return Step(effect=ObserveTool(call.id, spec, arguments, call.key, told))


def observed(invocation: Invocation, outcome: ObservedOutcome) -> Step:
    """
    What an observation settles; one that can't tell leaves it to a person. Where the call's own
    receipt has come meanwhile, that counts.
    """
    call = invocation.calls[outcome.call_id]
    if call.status != "unknown":
        return Step()
    match outcome.seen:
        case "succeeded":
            result = Payload.of(SEEN)
            fact = EffectReconciled(
                call_id=call.id, outcome="succeeded", by=VERIFIED, result=result
            )
        case "not_started":
            fact = EffectReconciled(call_id=call.id, outcome="failed", by=VERIFIED)
        case "unknown":
            return Step((_reconcile(invocation, call),))
        case _:
            assert_never(outcome.seen)
    return Step((_event(invocation, fact),))


def _reconcile(invocation: Invocation, call: Call) -> NewEvent:
    detail = f"{call.name} ({call.id}) may or may not have taken effect"
    return _event(invocation, _asks(invocation, detail))


def _asks(invocation: Invocation, detail: str) -> NodePaused:
    return NodePaused(reason="reconciliation_required", invocation=invocation.id, detail=detail)


def _event(invocation: Invocation, fact: Fact) -> NewEvent:
    return NewEvent(fact, node=node_of_invocation(invocation.id), attempt=invocation.attempt)
