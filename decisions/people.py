"""
What people may do to a run, as appends: request, cancel, resume, answer, approve, reconcile; and
what the world outside tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import UNSET

from mulligan.decisions import answers, receipts, signals
from mulligan.decisions.decision import FunctionOutcome, ToolOutcome
from mulligan.decisions.reactions import reactions
from mulligan.errors import InvalidInput
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import (
    DecisionMade,
    EffectReconciled,
    Fact,
    InputProvided,
    NodeCompleted,
    NodeFailed,
    Priority,
    RunCancelRequested,
    RunRequested,
    RunResumed,
    ToolApproved,
    ToolDenied,
    TurnAwaited,
)
from mulligan.events.ids import invocation_of_call, node_of_invocation
from mulligan.events.payload import Payload, canonical, digest_of
from mulligan.events.store import Append, AsFact, AsNew, ByVersion, Move
from mulligan.events.tasks import run_task
from mulligan.projections.allowance import RESUMABLE
from mulligan.projections.calls import NO_EFFECT, is_lost_function, known_call
from mulligan.projections.open_requests import open_requests
from mulligan.projections.run import evolve
from mulligan.projections.state import ENDED_NODE, Node, RunState
from mulligan.schemas.plan import Plan, plan_to_dict

REDRIVEN = 400
"""Nodes that one append redrives, well below what the store takes."""


def request(
    run: str,
    op: str,
    plan: Plan,
    input: Any,  # noqa: A002 - the field's name
    *,
    tags: tuple[str, ...] = (),
    priority: Priority = 0,
    delay_ms: int = 0,
    origin_window: str | None = None,
    correlation: str | None = None,
    traceparent: str | None = None,
    tenant: str | None = None,
    turn_ms: int | None = None,
) -> Append:
    """
    Ask for a run. The same id with the same workflow name and input is the same run, whatever
    became of the workflow's text in between. With `turn_ms` it stands in line for its tenant, and
    looks by itself after that, if nobody calls it.
    """
    fact = RunRequested(
        workflow=plan.name,
        workflow_version=plan.version,
        digest=plan.digest,
        plan=plan_to_dict(plan),
        input=Payload.of(input),
        tags=tags,
        origin_window=origin_window,
        priority=priority,
        traceparent=traceparent,
        tenant=tenant,
    )
    waits = (
        (NewEvent(TurnAwaited(tenant=tenant)),)
        if tenant is not None and turn_ms is not None
        else ()
    )
    return Append(
        run=run,
        op=op,
        writer=AsNew(digest_of(canonical([plan.name, input]))),
        events=(NewEvent(fact), *waits),
        moves=(Move(run_task(run), "ready", max(delay_ms, turn_ms or 0)),),
        correlation=correlation,
    )


def cancel(state: RunState, op: str, reason: str = "") -> Append | None:
    """Ask for a run to be cancelled; None: it has ended, or was asked before."""
    if state.ended or state.status == "cancelling":
        return None
    return _append(
        state, op, AsFact("cancel"), (RunCancelRequested(reason=reason),), phase="cancelling"
    )


def resume(state: RunState, op: str, node: str | None = None) -> Append:
    """
    Let paused agents go on with a fresh allowance: those of one node, or all.

    Raises:
        InvalidInput: nothing that a resume could help is paused there; the message says what is.
    """
    if node is not None and node not in state.nodes:
        raise InvalidInput(f"run {state.run!r} has no node {node!r}")
    reasons = {
        one.reason
        for one in state.nodes.values()
        if one.status == "paused" and node in (None, one.id)
    } | ({state.reason} if node is None and state.status == "paused" else set())
    if not reasons & RESUMABLE:
        waits = ", ".join(sorted(str(reason) for reason in reasons))
        raise InvalidInput(
            f"run {state.run!r} is {state.status}"
            + (f", waiting: {waits}, which a resume does not settle" if waits else "")
            + "".join(f"\n  {one.line}" for one in open_requests(state))
        )
    return _append(state, op, ByVersion(state.version), (RunResumed(target=node),))


def parked_in(state: RunState) -> list[str]:
    """
    The nodes of a run that are parked; none, if the run is so as a whole.

    Raises:
        InvalidInput: nothing is parked there.
    """
    parked = [one.id for one in state.nodes.values() if _is_parked(one)]
    if not parked and (state.status, state.reason) != ("paused", "parked"):
        raise InvalidInput(f"run {state.run!r} is {state.status}: nothing is parked there")
    return parked


def redrive(state: RunState, op: str, nodes: Sequence[str] | None = None) -> Append | None:
    """
    Wake those of `nodes` that are still parked (by default the first `REDRIVEN` that are), or a run
    that is so as a whole, and nothing else. None: they have gone on.

    Raises:
        InvalidInput: no nodes are named, and nothing is parked there.
    """
    nodes = nodes if nodes is not None else parked_in(state)[:REDRIVEN]
    facts = tuple(RunResumed(target=node) for node in nodes if _is_parked(state.nodes[node]))
    if not nodes and (state.status, state.reason) == ("paused", "parked"):
        facts = (RunResumed(),)
    return _append(state, op, ByVersion(state.version), facts) if facts else None


def _is_parked(node: Node) -> bool:
    return (node.status, node.reason) == ("paused", "parked")


def reconcile(
    state: RunState,
    op: str,
    call_id: str,
    outcome: Literal["succeeded", "failed", "retry"],
    *,
    by: str,
    result: Any = None,
) -> Append:
    """
    Say what became of an effect whose outcome is unknown: of a tool's call, or of a function node
    (its id is the call's).

    Raises:
        InvalidInput: there is no such call, or its outcome is known.
    """
    if is_lost_function(state, call_id):
        return _reconcile_function(state, op, call_id, outcome, by=by, result=result)
    invocation = state.invocations.get(invocation_of_call(call_id))
    call = invocation.calls.get(call_id) if invocation is not None else None
    if call is None:
        raise InvalidInput(f"run {state.run!r} has no call {call_id!r}")
    if call.status != "unknown":
        raise InvalidInput(f"call {call_id!r} is {call.status}, not unknown: nothing to reconcile")
    fact = EffectReconciled(
        call_id=call_id,
        outcome=outcome,
        by=by,
        result=Payload.of(result) if outcome == "succeeded" else None,
    )
    node = node_of_invocation(call_id)
    return _append(state, op, AsFact(f"reconcile {call_id}"), (fact,), node=node)


def _reconcile_function(
    state: RunState,
    op: str,
    node: str,
    outcome: Literal["succeeded", "failed", "retry"],
    *,
    by: str,
    result: Any,
) -> Append:
    """
    A function has no caller to tell: what is said of it is the end of its node, or has it called
    again. Only on what was seen, since a node ends once.
    """
    given = Payload.of(result)
    said = EffectReconciled(
        call_id=node,
        outcome=outcome,
        by=by,
        result=given if outcome == "succeeded" else None,
    )
    ends: dict[str, tuple[Fact, ...]] = {
        "succeeded": (NodeCompleted(output=given),),
        "failed": (NodeFailed(code="reconciled_as_failed", message=NO_EFFECT),),
        "retry": (),
    }
    return _append(state, op, ByVersion(state.version), (said, *ends[outcome]), node=node)


def decide(
    state: RunState,
    op: str,
    decision: Literal["accept", "abort", "take_over"],
    *,
    by: str,
    draft: Any = None,
    node: str | None = None,
    value_of: Callable[[Payload], Any] = lambda payload: payload.value,
) -> Append:
    """
    Decide what a repair loop could not: of the one that asks, or of that of a node. `value_of`
    reads the drafts of the loop, of whose kind a draft that is handed in has to be.

    Raises:
        InvalidInput: nobody asks there, several do, or the draft is missing or of no use.
    """
    asking = {name: one for name, one in state.repairs.items() if one.awaits is not None}
    if node is not None and node not in asking:
        raise InvalidInput(f"node {node!r} of run {state.run!r} does not ask for a decision")
    if not asking:
        raise InvalidInput(f"run {state.run!r} is {state.status}: no decision is asked for there")
    if node is None and len(asking) > 1:
        raise InvalidInput(f"several nodes ask: {', '.join(sorted(asking))}; name one by --node")
    if (decision == "take_over") != (draft is not None):
        raise InvalidInput("take_over needs a draft, and only take_over takes one")
    name = node or next(iter(asking))
    if draft is not None:
        _refuse_other_kind(draft, value_of(asking[name].drafts[0].content))
    request = asking[name].awaits or ""
    fact = DecisionMade(
        request_id=request,
        decision=decision,
        draft=Payload.of(draft) if draft is not None else None,
        by=by,
    )
    return _append(state, op, AsFact(f"decide {request}"), (fact,), node=name)


def _refuse_other_kind(draft: Any, first: Any) -> None:
    """Its gates could not read it, and that would end the run."""
    kinds: dict[type[Any], str] = {str: "text", dict: "an object (JSON)", list: "a list (JSON)"}
    given, wanted = kinds.get(type(draft)), kinds.get(type(first))
    if first is not UNSET and given != wanted:
        raise InvalidInput(f"this loop's drafts are {wanted or 'plain values'}, not {given}")


def answer(
    state: RunState, op: str, request_id: str, given: answers.Given, *, by: str
) -> Append | None:
    """
    Answer a question; None: it was answered so before.

    Raises:
        InvalidInput: there is no such question, it was answered otherwise, or this is no answer.
    """
    question, call = answers.asked(state, request_id)
    said = Payload.of(answers.checked(question, given))
    if call.result is not None:
        if call.result.digest == said.digest:
            return None
        raise InvalidInput(f"question {request_id!r} was answered before, and that answer stands")
    answers.refuse_ending(state)
    fact = InputProvided(request_id=request_id, answer=said, by=by)
    return _append(state, op, _of_many(f"answer {request_id}", op), (fact,), node=question.node)


def approve(state: RunState, op: str, call_id: str, *, by: str) -> Append | None:
    """
    Let a call be run that waits for it; None: it was let before.

    Raises:
        InvalidInput: there is no such call, it does not wait for approval, or was denied.
    """
    if answers.approval(state, call_id, "approved") is None:
        return None
    return _approval(state, op, ToolApproved(call_id=call_id, by=by))


def deny(state: RunState, op: str, call_id: str, reason: str = "", *, by: str) -> Append | None:
    """
    Refuse a call that waits for approval, which its agent is told; None: it was refused before.

    Raises:
        InvalidInput: there is no such call, it does not wait for approval, or was approved.
    """
    if answers.approval(state, call_id, "denied") is None:
        return None
    return _approval(state, op, ToolDenied(call_id=call_id, reason=reason, by=by))


def signal(state: RunState, op: str, name: str, key: str, data: Any, *, by: str) -> Append | None:
    """
    Send a signal to a run: on what was seen, so that it wakes who takes it. None: it was sent
    before, with this key.

    Raises:
        InvalidInput: nobody in the run could take it; the message says why.
    """
    fact = signals.received(state, name, key, data, by=by)
    return None if fact is None else _append(state, op, ByVersion(state.version), (fact,))


def _approval(state: RunState, op: str, fact: ToolApproved | ToolDenied) -> Append:
    writer = _of_many(f"approval {fact.call_id}", op)
    return _append(state, op, writer, (fact,), node=node_of_invocation(fact.call_id))


def _of_many(about: str, op: str) -> AsFact:
    """
    The log knows the last call about a key again. Here several people may speak at once, and each
    has to be known when no reply came, whoever spoke in between.
    """
    return AsFact(f"{about} {op}")


def late(
    state: RunState, op: str, outcome: ToolOutcome | FunctionOutcome, *, taken: bool
) -> Append | None:
    """
    What a tool or function came to whose worker has lost its lease (`taken`: to another), or whose
    run ends or has ended. None: nobody asks, or the log has no such call.
    """
    if isinstance(outcome, FunctionOutcome):
        return _late_function(state, op, outcome)
    call = known_call(state, outcome.call_id)
    if call is None:
        return None
    in_time = call.status == "started" and not taken
    return _append(
        state,
        op,
        AsFact(call.id, receipt=True),
        (receipts.receipt(outcome) if in_time else receipts.late_receipt(outcome),),
        node=node_of_invocation(call.id),
    )


def _late_function(state: RunState, op: str, outcome: FunctionOutcome) -> Append | None:
    """
    Its success is the end of its node, unless that has ended; only on what was seen, since a node
    ends once. A failure may be that of an earlier call, and is evidence.
    """
    node = state.nodes.get(outcome.node)
    if node is None or node.status in ENDED_NODE:
        return None
    function = state.function_of(node.id)
    if function is None or function.effect != "write":
        return None
    arrived = receipts.late_function_receipt(node, outcome)
    end = () if outcome.output is None else (NodeCompleted(output=outcome.output),)
    return _append(state, op, ByVersion(state.version), (arrived, *end), node=node.id)


def _append(
    state: RunState,
    op: str,
    writer: AsFact | ByVersion,
    given: tuple[Fact, ...],
    *,
    node: str | None = None,
    phase: Literal["cancelling"] | None = None,
) -> Append:
    branch = state.branch()
    events = tuple(NewEvent(fact, node=node) for fact in given)
    for event in events:
        evolve(
            branch,
            Envelope(
                id="tried",
                run=state.run,
                version=branch.version + 1,
                time_ms=0,
                data=event.data,
                node=node,
            ),
        )
    return Append(
        run=state.run,
        op=op,
        writer=writer,
        events=events,
        moves=reactions(branch, events, None),
        phase=phase,
        causation=state.last_event or None,
        correlation=state.correlation,
    )
