"""
The recovery view of a run: one allowance for each invocation (REC-1), what was sent and what it
cost, as far as that is known, and what can be done now.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause
from mulligan.projections import run as runs
from mulligan.projections import usage as usages
from mulligan.projections.advice import advice, why
from mulligan.projections.state import Invocation, Recovery, RunState
from mulligan.projections.usage import ModelUsage


class InvocationRecovery(Recovery, frozen=True, omit_defaults=True, kw_only=True):
    """
    An allowance, and what became of its invocation: `status` is `active`, `paused`, `completed`,
    `failed` (for `failure`) or `cancelled`.
    """

    status: str
    failure: Cause | None = None


class RecoveryView(msgspec.Struct, frozen=True, kw_only=True):
    """
    A run's allowances by invocation, in the order they began; its usage by model, in which requests
    of unknown usage are counted as such; `why` it stands still, and what can be done (`advice`).
    """

    run: str
    status: str
    reason: str | None
    invocations: tuple[InvocationRecovery, ...]
    usage: dict[str, ModelUsage] = {}
    why: str = ""
    advice: tuple[str, ...] = ()


def fold(run: str, events: Iterable[Envelope]) -> RecoveryView:
    """The recovery view of `run` after `events`."""
    state, usage = RunState(run=run), usages.RunUsage(run=run)
    for event in events:
        runs.evolve(state, event)
        usages.evolve(usage, event)
    return RecoveryView(
        run=state.run,
        status=state.status,
        reason=state.reason,
        invocations=tuple(_account(state, one) for one in state.invocations.values()),
        usage=usage.models,
        why=why(state) if state.status in ("paused", "failed") else "",
        advice=advice(state),
    )


def _account(state: RunState, invocation: Invocation) -> InvocationRecovery:
    kept = {name: getattr(invocation.recovery, name) for name in Recovery.__struct_fields__}
    return InvocationRecovery(**kept, status=invocation.status, failure=_failure(state, invocation))


def _failure(state: RunState, invocation: Invocation) -> Cause | None:
    if invocation.status != "failed":
        return None
    if invocation.parent is None:
        return state.nodes[invocation.id].failure
    return state.invocations[invocation.parent].calls[invocation.id].error
