"""
The overseer: one bounded try to repair a malformed output before its agent is asked again.

An actor of its own, and no node. It takes the sealed candidate, sends one request that knows
nothing of the conversation, and hands the answer to the completion protocol that the agent's own
output went through. Whatever goes wrong, the original error stands, and the agent's allowance
decides what comes next (OVR-1 to OVR-11).
"""

from __future__ import annotations

from mulligan.decisions.decision import AskModel, Context, ModelOutcome, Release, Step
from mulligan.decisions.ending import event
from mulligan.decisions.overseer_answer import Unrepaired, judge
from mulligan.decisions.overseer_request import request_for
from mulligan.decisions.submission import Judged, accepted
from mulligan.decisions.turn import Submitted
from mulligan.decisions.waiting import left_ms
from mulligan.errors import EnvironmentUnfit, InvalidInput
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    ModelAnswered,
    ModelFailed,
    ModelInterrupted,
    ModelRequested,
    OutputRejected,
    OutputRepairFailed,
    OutputRepairRequested,
    OutputRepairStarted,
    OutputRepairSucceeded,
    RepairFailure,
)
from mulligan.events.ids import overseer_invocation
from mulligan.events.payload import digest_of
from mulligan.events.sealed import seal
from mulligan.events.tasks import overseer_subject, overseer_task
from mulligan.projections.state import (
    MAX_OUTPUT_REPAIR_ATTEMPTS_PER_INVOCATION,
    Invocation,
    OutputRepair,
    RunState,
)
from mulligan.providers.port import Answer, Failure, Prepared

CANDIDATE_TTL_MS = 900_000
"""A candidate is kept for a quarter of an hour: the longest call, and as long for it to begin."""

# --- Before: is it the overseer's to repair? -----------------------------------------------------


def may_repair(invocation: Invocation, output: Judged) -> bool:
    """Whether the overseer is asked about a rejected output (OVR-2, OVR-3)."""
    asked_before = invocation.output_repairs
    return (
        output.repairable is not None
        and invocation.recovery.limit > 0
        and asked_before < MAX_OUTPUT_REPAIR_ATTEMPTS_PER_INVOCATION
    )


def asked(
    state: RunState,
    invocation: Invocation,
    before: tuple[NewEvent, ...],
    submitted: Submitted,
    output: Judged,
) -> Step:
    """The candidate is sealed, in the append that rejects it, and the overseer is asked for."""
    (rejected,) = (fact for fact in output.facts if isinstance(fact, OutputRejected))
    assert output.repairable is not None
    requested = OutputRepairRequested(
        invocation=invocation.id,
        kind=output.repairable,
        digest=rejected.digest,
        bytes=rejected.bytes,
        provider_id=submitted.call.id if submitted.call is not None else None,
    )
    task = overseer_task(state.run, invocation.id, invocation.attempt)
    sealed = seal(task, submitted.raw, CANDIDATE_TTL_MS)
    return Step((*before, event(invocation, requested)), sealed=(sealed,))


# --- The overseer's own steps --------------------------------------------------------------------


def proceed(state: RunState, subject: str, context: Context, outcome: ModelOutcome | None) -> Step:
    """
    The next step of the overseer's task about `subject` (invocation and attempt). What comes for an
    invocation that has ended or gone on is dropped (OVR-9).
    """
    invocation, repair = _open_repair(state, subject)
    task = _task(state, subject)
    if repair is None:
        late = _late(invocation, outcome) if outcome is not None else ()
        return Step(late, release=Release("end"), discarded=(task,))
    if outcome is not None:
        return _heard(state, invocation, repair, context, outcome)
    if repair.request is not None:
        return Step(_lost(invocation, repair.request.id))
    candidate = context.candidate_of(task)
    if candidate is None:
        return Step((_failed(invocation, "candidate_expired"),))
    return _ask(state, invocation, repair, context, candidate)


def _late(invocation: Invocation, outcome: ModelOutcome) -> tuple[NewEvent, ...]:
    """What a request has used is told even where its answer comes too late to count."""
    if not isinstance(outcome.result, Answer):
        return ()
    answered = _answered(_own_id(invocation), outcome.request_id, outcome.result)
    return (event(invocation, answered),)


def candidates_left(state: RunState) -> tuple[str, ...]:
    """The tasks whose candidates nobody will ask for any more: the run has ended before them."""
    return tuple(
        overseer_task(state.run, invocation.id, invocation.output_repair.attempt)
        for invocation in state.invocations.values()
        if invocation.output_repair is not None and invocation.output_repair.open
    )


def given_up(state: RunState, subject: str) -> tuple[NewEvent, ...]:
    """What is recorded where the overseer can't go on for a reason that no decision names."""
    invocation, repair = _open_repair(state, subject)
    if repair is None:
        return ()
    if repair.request is not None:
        return _lost(invocation, repair.request.id)
    return (_failed(invocation, "invocation_failed"),)


def _open_repair(state: RunState, subject: str) -> tuple[Invocation, OutputRepair | None]:
    invocation_id, attempt = overseer_subject(subject)
    invocation = state.invocations[invocation_id]
    repair = invocation.output_repair
    if repair is None or repair.attempt != attempt or invocation.ended:
        return invocation, None
    return invocation, repair if repair.open else None


def _task(state: RunState, subject: str) -> str:
    return overseer_task(state.run, *overseer_subject(subject))


def _failed(
    invocation: Invocation,
    reason: RepairFailure,
    request: str | None = None,
    *,
    told: str = "",
    novel: tuple[str, ...] = (),
) -> NewEvent:
    failed = OutputRepairFailed(
        invocation=invocation.id, reason=reason, request_id=request, detail=told, novel=novel
    )
    return event(invocation, failed)


def _lost(invocation: Invocation, request: str) -> tuple[NewEvent, ...]:
    """A request that was sent, perhaps, and of which nobody will know; it is not sent again."""
    interrupted = ModelInterrupted(request_id=request, invocation=_own_id(invocation))
    return event(invocation, interrupted), _failed(invocation, "interrupted", request)


# --- The request ---------------------------------------------------------------------------------


def _ask(
    state: RunState,
    invocation: Invocation,
    repair: OutputRepair,
    context: Context,
    candidate: str,
) -> Step:
    """The one request, its intent first."""
    within_ms = _within_ms(state, invocation, repair, context)
    if within_ms <= 0:
        return Step((_failed(invocation, "invocation_failed", told="no time is left for it"),))
    request = request_for(state, invocation, candidate)
    try:
        prepared = context.prepare(request)
    except (EnvironmentUnfit, InvalidInput):
        return Step((_failed(invocation, "invocation_failed", told="its model can't be asked"),))
    started = OutputRepairStarted(
        invocation=invocation.id, model=prepared.model, request_id=request.request_id
    )
    events = (event(invocation, started), event(invocation, _intent(invocation, prepared)))
    return Step(events, effect=AskModel(prepared, within_ms))


def _intent(invocation: Invocation, prepared: Prepared) -> ModelRequested:
    return ModelRequested(
        request_id=prepared.request.request_id,
        invocation=_own_id(invocation),
        turn=1,
        mode=prepared.request.mode,
        model=prepared.model,
        digest=prepared.digest,
        asked=dict(prepared.request.parameters),
        sent=prepared.sent,
    )


def _within_ms(
    state: RunState, invocation: Invocation, repair: OutputRepair, context: Context
) -> int:
    """The call's time: its own limit, the invocation's, and as long as the candidate is kept."""
    assert state.plan is not None
    limits = [
        state.plan.settings.output_repair_timeout_ms,
        repair.requested_ms + CANDIDATE_TTL_MS - context.now_ms,
    ]
    left = left_ms(state, invocation, context.now_ms)
    return min([*limits, left] if left is not None else limits)


# --- The answer ----------------------------------------------------------------------------------


def _heard(
    state: RunState,
    invocation: Invocation,
    repair: OutputRepair,
    context: Context,
    outcome: ModelOutcome,
) -> Step:
    """What came of the request and what follows from it stand in one append (OVR-11)."""
    request, result = outcome.request_id, outcome.result
    if isinstance(result, Failure):
        return Step(_not_answered(invocation, request, result))
    answered = event(invocation, _answered(_own_id(invocation), request, result))
    candidate = context.candidate_of(overseer_task(state.run, invocation.id, repair.attempt))
    if candidate is None:
        return Step((answered, _failed(invocation, "candidate_expired", request)))
    assert state.plan is not None
    found = judge(
        state.agent_of(invocation),
        result,
        candidate,
        cap_sent=repair.request.cap if repair.request is not None else None,
        strict=state.plan.settings.output_repair_strict,
    )
    if isinstance(found, Unrepaired):
        failed = _failed(invocation, found.reason, request, told=found.told, novel=found.novel)
        return Step((answered, failed))
    succeeded = OutputRepairSucceeded(
        invocation=invocation.id,
        model=repair.model,
        request_id=request,
        provider_id=repair.provider_id,
        novel=found.novel,
    )
    facts = (succeeded, *accepted(invocation, found.completed))
    return Step((answered, *(event(invocation, fact) for fact in facts)))


def _not_answered(invocation: Invocation, request: str, failure: Failure) -> tuple[NewEvent, ...]:
    if failure.cause.kind == "cancelled":  # not by the run: its worker stops
        return _lost(invocation, request)
    failed = ModelFailed(
        request_id=request,
        invocation=_own_id(invocation),
        cause=failure.cause,
        retry_after_ms=failure.retry_after_ms,
        transient=failure.transient,
    )
    told = _failed(invocation, "invocation_failed", request, told=failure.cause.kind)
    return event(invocation, failed), told


def _own_id(invocation: Invocation) -> str:
    return overseer_invocation(invocation.id, invocation.attempt)


def _answered(overseer: str, request: str, answer: Answer) -> ModelAnswered:
    """What the wire said; nothing of what the model did."""
    return ModelAnswered(
        request_id=request,
        invocation=overseer,
        finish_reason=answer.finish_reason,
        terminal=answer.terminal,
        usage=answer.usage,
        served_model=answer.served_model,
        digest=digest_of(answer.text.encode("utf-8", "surrogatepass")),
    )
