"""
What facts about agents change in a run's state: requests and answers, allowance, output.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause, RetryReason
from mulligan.events.ids import overseen
from mulligan.projections import allowance, output_repairs, repairs
from mulligan.projections.changes import (
    Changes,
    put_node,
    registering,
    settle,
)
from mulligan.projections.state import (
    Invocation,
    NodeStatus,
    Place,
    Request,
    RunState,
    Trouble,
    Turn,
)

CHANGES: Changes = {}
on = registering(CHANGES)


@on(facts.SlotAwaited)
def _slot_awaited(state: RunState, event: Envelope, fact: facts.SlotAwaited) -> None:
    place = Place(lane=fact.lane, since_ms=event.time_ms, tenant=fact.tenant)
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(invocation, place=place)


@on(facts.ModelRequested)
def _model_requested(state: RunState, event: Envelope, fact: facts.ModelRequested) -> None:
    if overseen(fact.invocation) is not None:
        return output_repairs.requested(state, event, fact)
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
        invocation, request=request, attempt=attempt, recovery=recovery, place=None
    )


@on(facts.ModelAnswered)
def _model_answered(state: RunState, event: Envelope, fact: facts.ModelAnswered) -> None:
    if overseen(fact.invocation) is not None:
        return output_repairs.heard(state, fact.invocation, fact.usage)
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
    repairs.spend(state, invocation.id, fact.usage)


@on(facts.ModelFailed)
def _model_failed(state: RunState, event: Envelope, fact: facts.ModelFailed) -> None:
    if overseen(fact.invocation) is not None:
        return output_repairs.heard(state, fact.invocation, None)
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(
        invocation, request=None, retry_of=fact.request_id, interrupted=0
    )
    repairs.spend(state, invocation.id, None)


@on(facts.ModelInterrupted)
def _model_interrupted(state: RunState, event: Envelope, fact: facts.ModelInterrupted) -> None:
    if overseen(fact.invocation) is not None:
        return output_repairs.heard(state, fact.invocation, None)
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(
        invocation,
        request=None,
        retry_of=fact.request_id,
        interrupted=invocation.interrupted + 1,
    )
    repairs.spend(state, invocation.id, None)


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
        _troubled(invocation, fact.reason, fact.cause),
        resends=resends,
        output_repair=output_repairs.over(invocation),
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
    invocation = replace(
        invocation,
        recovery=recovery,
        resends=0,
        split=None,
        output_repair=output_repairs.over(invocation),
    )
    state.invocations[invocation.id] = _troubled(invocation, fact.reason, fact.cause)


def _troubled(invocation: Invocation, reason: RetryReason, cause: Cause | None) -> Invocation:
    """Transport is no trouble of the model's: the same request is sent again as it was."""
    if reason == "transport":
        return invocation
    message = cause.message if cause is not None else ""
    # A turn that stays in the conversation is not asked for again (`retry_of`).
    kept = invocation.retry_of is None
    trouble = Trouble(reason=reason, message=message, issues=invocation.issues, kept=kept)
    return replace(invocation, trouble=trouble)


def _show_phase(state: RunState, invocation_id: str) -> None:
    """A node is `retrying` while its own agent is, and shows that agent's attempt (REC-9)."""
    node = state.nodes.get(invocation_id)
    if node is not None and node.status in ("running", "retrying"):
        invocation = state.invocations[invocation_id]
        retrying = invocation.recovery.phase == "retrying"
        status: NodeStatus = "retrying" if retrying else "running"
        put_node(state, replace(node, status=status, attempt=invocation.attempt))


@on(facts.DecompositionRequested)
def _decomposition_requested(
    state: RunState, event: Envelope, fact: facts.DecompositionRequested
) -> None:
    invocation = state.invocations[fact.invocation]
    recovery = allowance.recovered(invocation.recovery)
    state.invocations[invocation.id] = replace(
        invocation, split=fact.cause, recovery=recovery, resends=0
    )
    _show_phase(state, invocation.id)


@on(facts.JoinRequested)
def _join_requested(state: RunState, event: Envelope, fact: facts.JoinRequested) -> None:
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(invocation, joining=True)


@on(facts.OutputRejected)
def _output_rejected(state: RunState, event: Envelope, fact: facts.OutputRejected) -> None:
    invocation = state.invocations[fact.invocation]
    state.invocations[invocation.id] = replace(invocation, issues=fact.issues)


@on(facts.OutputAccepted)
def _output_accepted(state: RunState, event: Envelope, fact: facts.OutputAccepted) -> None:
    settle(state, fact.invocation, "completed")
