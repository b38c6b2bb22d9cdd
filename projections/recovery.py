"""
The recovery view of a run: one allowance for each invocation (REC-1), and what can be done now.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mulligan.events.envelope import Envelope
from mulligan.projections.run import fold as fold_run
from mulligan.projections.state import Recovery, RunState


class RecoveryView(msgspec.Struct, frozen=True, kw_only=True):
    """A run's allowances by invocation, in the order they began."""

    run: str
    status: str
    reason: str | None
    invocations: tuple[Recovery, ...]


def fold(run: str, events: Iterable[Envelope]) -> RecoveryView:
    """The recovery view of `run` after `events`."""
    return view(fold_run(run, events))


def view(state: RunState) -> RecoveryView:
    """The allowances in a run's state."""
    return RecoveryView(
        run=state.run,
        status=state.status,
        reason=state.reason,
        invocations=tuple(one.recovery for one in state.invocations.values()),
    )
