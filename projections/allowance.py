"""
The fold of an invocation's allowance (REC-1), a part of the run's and shown alone as `recovery`.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events.envelope import Envelope
from mulligan.events.facts import (
    AllowanceExhausted,
    AllowanceRefunded,
    AllowanceReserved,
    PauseReason,
)
from mulligan.projections.state import Recovery, RecoveryEntry

RESUMABLE: frozenset[PauseReason] = frozenset(
    {"exhausted", "parked", "operator", "context_exceeded"}
)
"""The reasons to be paused that a resume settles, with a fresh allowance."""


def dispatch(recovery: Recovery, request_id: str, attempt: int) -> Recovery:
    """
    A request is about to leave: counted, and limited by nothing. The phase stays: whoever retries
    does so until an answer is of use.
    """
    entry = RecoveryEntry(kind="dispatch", attempt=attempt, request_id=request_id)
    return replace(
        recovery,
        requests=recovery.requests + 1,
        entries=(*recovery.entries, entry),
    )


def recovered(recovery: Recovery) -> Recovery:
    """An answer was of use: what was retried has come to its end."""
    return replace(recovery, phase="active") if recovery.phase == "retrying" else recovery


def resume(recovery: Recovery) -> Recovery:
    """
    A fresh allowance after this one, linked to it; requests and history go on. The only way out of
    `paused` (REC-8); nothing leads out of `cancelled`.
    """
    if recovery.phase == "cancelled":
        return recovery
    return replace(
        recovery,
        phase="active",
        used=0,
        exhausted=False,
        transport_exhausted=False,
        cause=None,
        resumed_from=recovery.number,
        number=recovery.number + 1,
    )


def evolve(recovery: Recovery, event: Envelope) -> Recovery:
    """
    The allowance after one of its own events. One that is paused or cancelled reserves and gives
    back nothing, whatever comes late.
    """
    if recovery.phase in ("paused", "cancelled"):
        return recovery
    fact = event.data
    match fact:
        case AllowanceReserved():
            entry = RecoveryEntry(
                kind="reserve",
                attempt=event.attempt or 1,
                reason=fact.reason,
                request_id=fact.request_id,
            )
            return replace(
                recovery, phase="retrying", used=fact.used, entries=(*recovery.entries, entry)
            )
        case AllowanceRefunded():
            entry = RecoveryEntry(
                kind="refund",
                attempt=event.attempt or 1,
                reason="transport",
                request_id=fact.request_id,
                count=fact.count,
            )
            return replace(
                recovery, phase="active", used=fact.used, entries=(*recovery.entries, entry)
            )
        case AllowanceExhausted():
            return replace(
                recovery,
                phase="paused",
                exhausted=True,
                transport_exhausted=fact.reason == "transport",
                cause=fact.cause,
            )
        case _:
            return recovery
