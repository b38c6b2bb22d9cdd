"""
What facts about the overseer change in a run's state: the repair of an invocation's output.

Its requests are of an invocation of its own, which is none of the state's: they draw on no
allowance and stand in no conversation. Facts that come late find a repair that is over.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.ids import overseen
from mulligan.projections import repairs
from mulligan.projections.changes import Changes, registering
from mulligan.projections.state import Invocation, OutputRepair, Request, RunState

CHANGES: Changes = {}
on = registering(CHANGES)


@on(facts.OutputRepairRequested)
def _asked_for(state: RunState, event: Envelope, fact: facts.OutputRepairRequested) -> None:
    invocation = state.invocations[fact.invocation]
    repair = OutputRepair(
        attempt=event.attempt or invocation.attempt,
        kind=fact.kind,
        requested_ms=event.time_ms,
        provider_id=fact.provider_id,
    )
    state.invocations[invocation.id] = replace(invocation, output_repair=repair)


@on(facts.OutputRepairStarted)
def _started(state: RunState, event: Envelope, fact: facts.OutputRepairStarted) -> None:
    _put(state, fact.invocation, phase="started", model=fact.model)


@on(facts.OutputRepairSucceeded)
def _succeeded(state: RunState, event: Envelope, fact: facts.OutputRepairSucceeded) -> None:
    _put(state, fact.invocation, phase="over")


@on(facts.OutputRepairFailed)
def _failed(state: RunState, event: Envelope, fact: facts.OutputRepairFailed) -> None:
    _put(state, fact.invocation, phase="failed")
    _leave_lane(state, fact.invocation)


def requested(state: RunState, event: Envelope, fact: facts.ModelRequested) -> None:
    """The overseer's request is about to leave."""
    invocation = state.invocations[overseen(fact.invocation) or ""]
    request = Request(
        id=fact.request_id,
        turn=fact.turn,
        attempt=event.attempt or invocation.attempt,
        mode=fact.mode,
        cap=fact.sent.get("max_tokens") or fact.sent.get("max_completion_tokens"),
    )
    _put(state, invocation.id, request=request)
    _leave_lane(state, invocation.id)


def heard(state: RunState, overseer: str, usage: facts.Usage | None) -> None:
    """The overseer's request was answered, or has failed, or nobody will know."""
    invocation = overseen(overseer) or ""
    _put(state, invocation, request=None)
    repairs.spend(state, invocation, usage)


def over(invocation: Invocation) -> OutputRepair | None:
    """The repair of an invocation that goes on, or that is over itself."""
    repair = invocation.output_repair
    return replace(repair, phase="over") if repair is not None else None


def _leave_lane(state: RunState, invocation_id: str) -> None:
    """The overseer asks now, or will not ask: nobody of the invocation waits for a slot."""
    state.invocations[invocation_id] = replace(state.invocations[invocation_id], place=None)


def _put(state: RunState, invocation_id: str, **changed: object) -> None:
    invocation = state.invocations[invocation_id]
    if invocation.output_repair is not None:
        repair = replace(invocation.output_repair, **changed)
        state.invocations[invocation_id] = replace(invocation, output_repair=repair)
