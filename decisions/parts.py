"""
Work that is too much for one response, done in the parts that the workflow makes of it (REC-19).

The runtime does not guess how to split work: a `decompose` step of the workflow is given the prompt
and says what the parts are. Each is worked by the same agent in an invocation of its own, as called
agents are: in parallel, with an allowance of its own, and not again once it is done. A part that is
too much for the model too is not divided further; it pauses as exhausted. What `join` makes of the
parts' outputs is the output, and has to fit the same schema as that of one response.
"""

from __future__ import annotations

from typing import Any

from mulligan.completion.validate import compiled
from mulligan.decisions import scope
from mulligan.decisions.conversation import turn_number, user_message
from mulligan.decisions.decision import CallFunction, Context, FunctionOutcome, Step
from mulligan.decisions.ending import event, fail
from mulligan.decisions.waiting import DEADLINE_EXCEEDED, left_ms
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    AllowanceExhausted,
    Cause,
    DecompositionRequested,
    Fact,
    JoinRequested,
    NodeCompleted,
    NodePaused,
    OutputAccepted,
    SubagentCalled,
    SubagentCompleted,
)
from mulligan.events.ids import call_id, node_of_invocation, template_of
from mulligan.events.payload import Payload
from mulligan.projections.state import Call, Invocation, RunState
from mulligan.schemas.call_names import KEY
from mulligan.schemas.plan import FunctionPlan, PluginPlan

Values = dict[str, Any]

MAX_PARTS = 200
"""As many as calls in one response: a single append has to hold them."""


def divisible(state: RunState, invocation: Invocation) -> bool:
    """Whether the workflow says how an invocation's work is split, and it is not a part itself."""
    return invocation.part is None and state.agent_of(invocation).decompose is not None


def request(invocation: Invocation, before: tuple[NewEvent, ...], cause: Cause) -> Step:
    """Work is to be split, since no response can hold it."""
    fact = DecompositionRequested(invocation=invocation.id, cause=cause)
    return Step((*before, event(invocation, fact)))


def proceed(state: RunState, invocation: Invocation, context: Context) -> Step:
    """
    The next step of an invocation whose work is split and none of whose parts is under way. Whoever
    asks runs nothing: a function that had begun was left by a lost worker, and is called again.
    """
    agent = state.agent_of(invocation)
    parts = parts_of(invocation)
    if not parts:
        assert agent.decompose is not None
        assert invocation.split is not None
        cause = {"kind": invocation.split.kind, "message": invocation.split.message}
        prompt = user_message(state, invocation, context)
        return _call(
            state, invocation, agent.decompose, {"prompt": prompt, "cause": cause}, context
        )
    failed = next((one for one in parts if one.error is not None), None)
    if failed is not None and failed.error is not None:
        message = f"part {failed.part} of {len(parts)}: {failed.error.message}"
        return fail(invocation, (), Cause(kind=failed.error.kind, message=message))
    outputs = [context.value_of(one.result) for one in parts if one.result is not None]
    assert agent.join is not None
    step = _call(state, invocation, agent.join, {"parts": outputs}, context)
    if invocation.joining:
        return step
    intent = event(invocation, JoinRequested(invocation=invocation.id))
    return Step((intent,), effect=step.effect)


def returned(
    state: RunState, invocation: Invocation, outcome: FunctionOutcome, context: Context
) -> Step:
    """What follows from what `decompose` or `join` came to."""
    left = left_ms(state, invocation, context.now_ms)
    if outcome.output is None and left is not None and left <= 0:
        return fail(invocation, (), DEADLINE_EXCEEDED)
    value = context.value_of(outcome.output) if outcome.output is not None else None
    if parts_of(invocation):
        return _joined(state, invocation, outcome, value)
    error = outcome.error.message if outcome.error is not None else None
    problem = error or _problem(value, user_message(state, invocation, context))
    if problem is not None:
        return _not_split(invocation, problem)
    assert isinstance(value, list)
    turn = turn_number(invocation)
    called = (
        SubagentCalled(
            invocation=call_id(invocation.id, turn, number),
            parent=invocation.id,
            agent=invocation.agent or template_of(node_of_invocation(invocation.id)),
            provider_id="",
            input=Payload.of(part),
            part=number,
        )
        for number, part in enumerate(value, start=1)
    )
    return Step(tuple(event(invocation, one) for one in called))


def parts_of(invocation: Invocation) -> list[Call]:
    """The parts of an invocation's work, in order; none: it is not split, or not yet."""
    return [call for call in invocation.calls.values() if call.part is not None]


def _call(
    state: RunState, invocation: Invocation, plugin: PluginPlan, own: Values, context: Context
) -> Step:
    """
    Call a function of the workflow with values of `own`, and with what it names of the run's; for
    as long as the agent has time (REC-18).
    """
    node = node_of_invocation(invocation.id)
    named = scope.values(state, node, plugin.arguments, context.value_of)
    key = f"{state.begun_in(node)}:{invocation.id}:{plugin.call.path}"
    values = {KEY: key, **named, **own}
    plan = FunctionPlan(
        call=plugin.call,
        arguments=plugin.arguments,
        effect="idempotent",
        attempts=1,
        backoff_ms=0,
        backoff_max_ms=0,
        timeout_ms=left_ms(state, invocation, context.now_ms),
    )
    arguments = {name: values[name] for name in plugin.arguments if name in values}
    return Step(effect=CallFunction(invocation.id, plan, arguments))


def _problem(value: Any, whole: str) -> str | None:
    """Why a value is no list of parts; it quotes nothing of it."""
    if not isinstance(value, list) or not value:
        return "it returned no list of parts"
    if len(value) > MAX_PARTS:
        return f"it returned {len(value)} parts; {MAX_PARTS} at most are worked"
    for number, part in enumerate(value, start=1):
        if part is None or part == "":
            return f"its part {number} is empty"
        if part == whole:
            return f"its part {number} is the whole again"
    return None


def _not_split(invocation: Invocation, problem: str) -> Step:
    """The workflow's step could not help: the original cause stands (REC-8)."""
    assert invocation.split is not None
    cause = invocation.split
    exhausted = AllowanceExhausted(invocation=invocation.id, reason="length", cause=cause)
    detail = f"{cause.message}; decompose did not help: {problem}"
    paused = NodePaused(reason="exhausted", invocation=invocation.id, detail=detail)
    return Step((event(invocation, exhausted), event(invocation, paused)))


def _joined(state: RunState, invocation: Invocation, outcome: FunctionOutcome, value: Any) -> Step:
    if outcome.output is None:
        message = outcome.error.message if outcome.error is not None else ""
        return fail(invocation, (), Cause(kind="join_failed", message=f"join: {message}"))
    issues = compiled(state.agent_of(invocation).output_schema).issues(value)
    if issues:
        message = f"join: its output does not fit the schema: {issues[0].path or 'the output'}"
        return fail(invocation, (), Cause(kind="join_failed", message=message))
    return _ended(invocation, outcome.output)


def _ended(invocation: Invocation, output: Payload) -> Step:
    accepted = OutputAccepted(invocation=invocation.id, digest=output.digest, steps=("parts",))
    ended: Fact = (
        NodeCompleted(output=output)
        if invocation.parent is None
        else SubagentCompleted(invocation=invocation.id, output=output)
    )
    return Step((event(invocation, accepted), event(invocation, ended)))
