"""
The allowance: the only authority on whether a failed attempt is followed by another (REC-2).

Every failure of every kind comes here, and gets one of two answers. An extra attempt is reserved
and announced before it begins, or automatic recovery is over, and the invocation is paused with the
cause that it could not get over. Nothing else in mulligan asks a model again, except for a request
whose worker was lost (REC-33).

The same request is sent again after a failure of the transport, as often as the allowance has it;
`ModelRequested.retry_of` links the sends. Once one of them is answered with a terminal event the
transport has done its work, whatever the answer is worth, and what this chain had reserved for
transport is given back (REC-4). A response without an end, or one that was stopped in a loop, ends
the chain and gives nothing back.
"""

from __future__ import annotations

import msgspec

from mulligan.events.facts import (
    AllowanceExhausted,
    AllowanceRefunded,
    AllowanceReserved,
    Cause,
    Fact,
    NodePaused,
    RetryReason,
    TimerSet,
)
from mulligan.events.ids import request_id
from mulligan.projections.state import Invocation
from mulligan.providers.port import Answer

NOT_MADE = frozenset({"unknown_tool", "invalid_arguments"})
"""Codes of calls that ran nothing: of no tool that is offered, or refused by its parameters."""

_NO_CALL = "none of its calls could be made, since "


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """
    An attempt that failed: what the allowance counts it under, the original cause, the request.
    `delay_ms` is the wait before the next, for transport; `final` failures no retry can help.
    """

    reason: RetryReason
    cause: Cause
    request_id: str
    delay_ms: int | None = None
    final: bool = False


def refund(invocation: Invocation, request: str, answer: Answer) -> AllowanceRefunded | None:
    """What an answer gives back of its request's reservations for transport; None: nothing."""
    if not answer.terminal or not invocation.resends:
        return None
    return AllowanceRefunded(
        invocation=invocation.id,
        request_id=request,
        count=invocation.resends,
        used=invocation.recovery.used - invocation.resends,
    )


def made_no_call(invocation: Invocation) -> FailedAttempt | None:
    """
    The attempt whose last turn called nothing that could be run, unless the allowance knows of it.
    A model that goes on like that would never end: such a turn is no tool round, and draws on the
    allowance as any other that is of no use. It stays in the conversation, with what its calls
    were told.
    """
    if not invocation.turns or invocation.retry_of is not None or invocation.trouble is not None:
        return None
    calls = [invocation.calls[call] for call in invocation.turns[-1].calls]
    codes = {call.error.kind if call.error is not None else call.status for call in calls}
    if not codes <= NOT_MADE:
        return None
    if "unknown_tool" in codes:
        cause = Cause(kind="wrong_envelope", message=f"{_NO_CALL}they name tools not offered")
        reason: RetryReason = "wrong_envelope"
    else:
        cause = Cause(kind="schema_violation", message=f"{_NO_CALL}their arguments do not fit")
        reason = "schema_violation"
    last = request_id(invocation.id, invocation.recovery.requests)
    return FailedAttempt(reason=reason, cause=cause, request_id=last)


def recover(invocation: Invocation, failed: FailedAttempt, used: int) -> tuple[Fact, ...]:
    """
    What follows a failure when `used` of the allowance is spent: the next attempt, reserved, with a
    timer where it has to wait; or the end of automatic recovery, the phase first, then the pause
    that people see (REC-8).
    """
    if used >= invocation.recovery.limit or failed.final:
        return _over(invocation, failed)
    next_attempt = invocation.attempt + 1
    reserved = AllowanceReserved(
        invocation=invocation.id,
        reason=failed.reason,
        next_attempt=next_attempt,
        used=used + 1,
        limit=invocation.recovery.limit,
        request_id=failed.request_id,
        delay_ms=failed.delay_ms,
        cause=failed.cause,
    )
    if failed.delay_ms is None:
        return (reserved,)
    timer = TimerSet(
        purpose="backoff",
        delay_ms=failed.delay_ms,
        next_attempt=next_attempt,
        invocation=invocation.id,
    )
    return (reserved, timer)


def _over(invocation: Invocation, failed: FailedAttempt) -> tuple[Fact, ...]:
    exhausted = AllowanceExhausted(
        invocation=invocation.id, reason=failed.reason, cause=failed.cause
    )
    paused = NodePaused(reason="exhausted", invocation=invocation.id, detail=failed.cause.told)
    return (exhausted, paused)
