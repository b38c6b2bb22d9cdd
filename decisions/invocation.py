"""
The turns of an agent, from its prompt to its final output: one step at a time.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from mulligan.decisions import allowance, effects, parts
from mulligan.decisions.capacity import Compact, Fits, TooLong, planned
from mulligan.decisions.conversation import next_request, turn_number
from mulligan.decisions.decision import (
    AskModel,
    Context,
    FunctionOutcome,
    ModelOutcome,
    ObservedOutcome,
    Outcome,
    Release,
    Step,
    ToolOutcome,
)
from mulligan.decisions.ending import event, fail, interrupted, pause
from mulligan.decisions.hearing import heard, unrepaired
from mulligan.decisions.waiting import DEADLINE_EXCEEDED, left_ms
from mulligan.events.facts import HistoryCompacted, ModelRequested, TimerFired
from mulligan.events.ids import node_of_invocation
from mulligan.projections.state import ANSWERED_CALL, ASKS_A_PERSON, Invocation, RunState
from mulligan.providers.port import ModelRequest


def proceed(
    state: RunState, invocation: Invocation, context: Context, outcome: Outcome | None
) -> Step:
    """The next step of an invocation that has not ended; `outcome` is what its last effect gave."""
    if isinstance(outcome, ModelOutcome):
        return heard(state, invocation, outcome, context)
    if isinstance(outcome, FunctionOutcome):
        return parts.returned(state, invocation, outcome, context)
    if isinstance(outcome, ObservedOutcome):
        return effects.observed(invocation, outcome)
    if isinstance(outcome, ToolOutcome):
        return effects.returned(state, invocation, outcome)
    if invocation.status != "active":
        return _paused(state, invocation, context)
    if invocation.request is not None:
        return interrupted(invocation)
    return _go_on(state, invocation, context)


def _go_on(state: RunState, invocation: Invocation, context: Context) -> Step:
    """
    Nothing is under way: the time, then the timer, then a repair of the output, then open calls,
    then the next request.
    """
    left = left_ms(state, invocation, context.now_ms)
    if left is not None and left <= 0 and not effects.unsettled(invocation):
        return fail(invocation, (), DEADLINE_EXCEEDED)
    if invocation.timer_due_ms is not None:
        return _wait(invocation, invocation.timer_due_ms - context.now_ms)
    repair = invocation.output_repair
    if repair is not None and repair.phase == "failed":
        return unrepaired(invocation, repair)
    if repair is not None and repair.open:
        return Step(release=_until_woken(state, invocation, left))
    call = effects.next_call(state, invocation, context)
    if call is not None:
        return call
    if any(call.status not in ANSWERED_CALL for call in invocation.calls.values()):
        return Step(release=_until_woken(state, invocation, left))
    if invocation.split is not None:
        return parts.proceed(state, invocation, context)
    in_vain = allowance.made_no_call(invocation)
    if in_vain is not None:
        facts = allowance.recover(invocation, in_vain, invocation.recovery.used)
        return Step(tuple(event(invocation, fact) for fact in facts))
    return _ask(state, invocation, context, left)


def _paused(state: RunState, invocation: Invocation, context: Context) -> Step:
    """Who waits for a person's word waits no longer than the caller's time lasts (REC-18)."""
    left = left_ms(state, invocation, context.now_ms)
    if invocation.reason not in ASKS_A_PERSON or left is None:
        return Step(release=Release("wait"))
    if left <= 0:
        return fail(invocation, (), DEADLINE_EXCEEDED)
    return Step(release=Release("timer", left))


def _wait(invocation: Invocation, left: int) -> Step:
    """Whatever woke us: the wait ends when it is over."""
    if left > 0:
        return Step(release=Release("timer", left))
    return Step((event(invocation, TimerFired(purpose="backoff", invocation=invocation.id)),))


def _until_woken(state: RunState, invocation: Invocation, left: int | None) -> Release:
    """A called agent or the overseer works; who waits for it does so until its time is over."""
    node = state.nodes[node_of_invocation(invocation.id)]
    if left is None or (node.status == "paused" and node.reason not in ASKS_A_PERSON):
        return Release("wait")
    return Release("timer", left)


def _ask(state: RunState, invocation: Invocation, context: Context, left: int | None) -> Step:
    """The next request, its intent first; shortened before where it would not fit."""
    request = next_request(state, invocation, context)
    plan = planned(state, invocation, request, context)
    match plan:
        case Fits():
            return _dispatch(invocation, request, plan.cap, context, left)
        case Compact():
            compacted = HistoryCompacted(
                invocation=invocation.id,
                call_ids=plan.call_ids,
                tokens_before=plan.tokens_before,
                tokens_after=plan.tokens_after,
            )
            return Step((event(invocation, compacted),))
        case TooLong():
            detail = (
                f"the conversation takes about {plan.tokens} tokens (an estimate), and the "
                f"model's context has room for {plan.limit}"
            )
            return Step((pause(invocation, "context_exceeded", detail),))
        case _:
            assert_never(plan)


def _dispatch(
    invocation: Invocation,
    request: ModelRequest,
    cap: int | None,
    context: Context,
    left: int | None,
) -> Step:
    asked = request.parameters
    if cap is not None:
        request = replace(request, parameters={**asked, "max_tokens": cap})
    prepared = context.prepare(request)
    intent = ModelRequested(
        request_id=request.request_id,
        invocation=invocation.id,
        turn=turn_number(invocation),
        mode=request.mode,
        model=prepared.model,
        digest=prepared.digest,
        asked=asked,
        sent=prepared.sent,
        retry_of=invocation.retry_of,
    )
    return Step((event(invocation, intent),), effect=AskModel(prepared, left))
