"""
How long an agent may take, and how long it waits before a request is sent again.

Two limits of the caller count (REC-18): a node's or agent's `timeout`, from its beginning or from
when an operator last let it go on, and the workflow's `deadline`, from when a worker took the run
up. Both end the invocation with the reason `deadline_exceeded`; there is none unless the workflow
sets it. The time in which an agent waits for a person's answer or approval counts like any other.
"""

from __future__ import annotations

from mulligan.events.facts import Cause
from mulligan.projections.state import Invocation, RunState
from mulligan.schemas.plan import SettingsPlan

DEADLINE_EXCEEDED = Cause(
    kind="deadline_exceeded", message="the time that the workflow allows is over"
)
TOO_LATE = Cause(
    kind="deadline_exceeded",
    message="the provider asks to wait for longer than the time that the workflow allows",
)

MAX_DOUBLINGS = 32
"""Beyond any `backoff_max`; keeps the numbers small."""


def left_ms(state: RunState, invocation: Invocation, now_ms: int) -> int | None:
    """What is left of the invocation's time, below 0 when it is over; None: it has no limit."""
    timeout_ms = state.agent_of(invocation).timeout_ms
    deadline_ms = state.plan.settings.deadline_ms if state.plan is not None else None
    ends = []
    if timeout_ms is not None:
        ends.append(invocation.since_ms + timeout_ms)
    if deadline_ms is not None:
        ends.append((state.started_ms or 0) + deadline_ms)
    return min(ends) - now_ms if ends else None


def backoff_ms(
    settings: SettingsPlan,
    resends: int,
    chance: float,
    *,
    retry_after_ms: int | None,
    left_ms: int | None,
) -> int | None:
    """
    The wait before a request is sent again (REC-17): doubled with each of its `resends` so far up
    to `backoff_max`, and drawn from the upper half of that by `chance` (0 to 1), so that many
    that failed together do not come back together. Never shorter than Retry-After. With a deadline
    it leaves half of the time to the request; None: Retry-After leaves it nothing.
    """
    doubled: int = settings.backoff_ms * 2 ** min(resends, MAX_DOUBLINGS)
    most = min(doubled, settings.backoff_max_ms)
    wait_ms = round(most / 2 + chance * most / 2)
    if left_ms is not None:
        wait_ms = min(wait_ms, max(left_ms, 0) // 2)
    if retry_after_ms is None:
        return wait_ms
    if left_ms is not None and retry_after_ms >= left_ms:
        return None
    return max(wait_ms, retry_after_ms)
