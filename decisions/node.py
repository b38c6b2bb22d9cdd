"""
A node's own steps: its start, its agent's turns or its function's call, its end.
"""

from __future__ import annotations

from mulligan.decisions import asking, invocation, repair, scope, signals
from mulligan.decisions.decision import (
    CallFunction,
    Context,
    FunctionOutcome,
    Outcome,
    Release,
    Step,
)
from mulligan.decisions.effects import run_context
from mulligan.errors import ExpressionFailed
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Fact,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodePaused,
    NodeStarted,
    TimerFired,
    TimerSet,
)
from mulligan.projections.state import Node, RunState
from mulligan.schemas.call_names import ANSWERS
from mulligan.schemas.plan import FunctionPlan
from mulligan.schemas.run_context import RUN_CONTEXT

LOST = "its worker was lost during a function that may not be repeated on its own"
"""Why nobody knows whether a function took effect, where it could not say so itself."""


def work(state: RunState, node: Node, context: Context, outcome: Outcome | None) -> Step:
    """The next step of a node that is ready, running, retrying or paused."""
    if node.status == "ready" and state.failed_node is not None:
        return _one(node, NodeCancelled())
    function = state.function_of(node.id)
    if isinstance(outcome, FunctionOutcome) and function is not None:
        return _returned(state, node, function, outcome)
    try:
        if function is not None:
            return _function(state, node, function, context)
        waits = state.wait_of(node.id)
        if waits is not None:
            return signals.wait(state, node, waits, context)
        if node.status == "ready":
            return _one(node, NodeStarted(), attempt=1)
        if node.id in state.repairs:
            return _repair(state, node, context, outcome)
        return invocation.proceed(state, state.invocations[node.id], context, outcome)
    except ExpressionFailed as error:
        return _one(node, NodeFailed(code="expression_failed", message=str(error)))


def _repair(state: RunState, node: Node, context: Context, outcome: Outcome | None) -> Step:
    """The first judgement is the node's own; once that failed, the orchestrator goes on."""
    if state.repairs[node.id].orchestrated:
        return Step(release=Release("wait"))
    return repair.proceed(state, node, context, outcome)


def _one(node: Node, fact: Fact, attempt: int | None = None) -> Step:
    return Step((NewEvent(fact, node=node.id, attempt=attempt or node.attempt or None),))


# --- Functions -----------------------------------------------------------------------------------


def _function(state: RunState, node: Node, plan: FunctionPlan, context: Context) -> Step:
    """
    Start the function, or start it again. Whoever asks runs nothing, so a call that had begun was
    left by a lost worker: it is repeated as the same attempt, unless it is a `write`.
    """
    if node.status == "paused":
        return Step(release=Release("wait"))
    if node.status == "retrying":
        return _retry(state, node, plan, context)
    if node.status == "running" and plan.effect == "write":
        return _one(node, _unknown(node, LOST))
    return _call(state, node, plan, context, max(node.attempt, 1))


def _call(state: RunState, node: Node, plan: FunctionPlan, context: Context, attempt: int) -> Step:
    arguments = scope.values(state, node.id, plan.arguments, context.value_of)
    if "idempotency_key" in plan.arguments:
        arguments["idempotency_key"] = f"{state.begun_in(node.id)}:{node.id}"
    if RUN_CONTEXT in plan.arguments:
        arguments[RUN_CONTEXT] = run_context(state, node.id, node.id)
    if ANSWERS in plan.arguments:
        arguments[ANSWERS] = asking.answers_in(state, node, context.value_of)
    return Step(
        (NewEvent(NodeStarted(), node=node.id, attempt=attempt),),
        effect=CallFunction(node.id, plan, arguments),
    )


def _retry(state: RunState, node: Node, plan: FunctionPlan, context: Context) -> Step:
    if node.timer_due_ms is not None:
        left_ms = node.timer_due_ms - context.now_ms
        if left_ms > 0:
            return Step(release=Release("timer", left_ms))
        return _one(node, TimerFired(purpose="retry"))
    return _call(state, node, plan, context, node.attempt + 1)


def _returned(state: RunState, node: Node, plan: FunctionPlan, outcome: FunctionOutcome) -> Step:
    if outcome.questions:
        return asking.function_asks(state, node, outcome.questions)
    if outcome.output is not None:
        return _one(node, NodeCompleted(output=outcome.output))
    assert outcome.error is not None
    if outcome.unknown:
        facts = (*outcome.lost, _unknown(node, outcome.error.message))
        return Step(tuple(NewEvent(one, node=node.id, attempt=node.attempt) for one in facts))
    if node.attempt >= plan.attempts:
        return _one(node, NodeFailed(code=outcome.error.kind, message=outcome.error.message))
    return _one(
        node,
        TimerSet(
            purpose="retry",
            delay_ms=backoff_ms(plan, node.attempt),
            next_attempt=node.attempt + 1,
            cause=outcome.error,
        ),
    )


def backoff_ms(plan: FunctionPlan, attempt: int) -> int:
    """The wait after `attempt` has failed: doubled each time, up to the plan's maximum."""
    return int(min(plan.backoff_ms * 2 ** min(attempt - 1, 32), plan.backoff_max_ms))


def _unknown(node: Node, detail: str) -> NodePaused:
    return NodePaused(reason="reconciliation_required", invocation=node.id, detail=detail)
