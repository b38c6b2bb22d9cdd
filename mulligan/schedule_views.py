"""
Schedules as they are shown: by commands with `--json`, and over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from mulligan.decisions.schedule import upcoming
from mulligan.events.facts import (
    CatchUpPolicy,
    OverlapPolicy,
    ScheduleEntry,
    ScheduleStatus,
    SkipReason,
)
from mulligan.projections.schedule import ScheduleState
from mulligan.projections.state import RunStatus

NEXT_SHOWN = 5
FIRINGS_SHOWN = 10


class Firing(msgspec.Struct, kw_only=True):
    """
    A moment at which a schedule fired, or `count` moments that were skipped, the last of them
    `due_ms`, and why. `by` is who wanted a run besides; `status` is that of the run.
    """

    due_ms: int
    outcome: Literal["open", "requested", "skipped"]
    run: str | None
    status: RunStatus | None
    by: str | None
    reason: SkipReason | None
    detail: str
    count: int
    from_ms: int | None


class ScheduleView(msgspec.Struct, kw_only=True):
    """A schedule: its terms, when it is due next, and what its latest firings came to."""

    kind: Literal["schedule"] = "schedule"
    name: str
    status: ScheduleStatus
    detail: str
    workflow: str
    source: str | None
    cron: str
    timezone: str
    overlap: OverlapPolicy
    catch_up: CatchUpPolicy
    model: str | None
    tags: list[str]
    priority: int
    tenant: str | None
    input: Any
    created_ms: int
    next_ms: list[int]
    firings: list[Firing]
    """newest first"""


class ScheduleRow(msgspec.Struct, kw_only=True):
    """A schedule in a list."""

    name: str
    status: ScheduleStatus
    workflow: str
    cron: str
    timezone: str
    next_ms: int | None
    last: Firing | None


class ScheduleList(msgspec.Struct, kw_only=True):
    """All schedules, by name."""

    kind: Literal["schedules"] = "schedules"
    schedules: list[ScheduleRow]


StatusOf = Callable[[str], RunStatus | None]
"""The status of a run; None: it is not there yet."""


def view(state: ScheduleState, now_ms: int, given: Any, status_of: StatusOf) -> ScheduleView:
    """All of a schedule that was created."""
    assert state.terms is not None
    terms = state.terms
    return ScheduleView(
        name=state.name,
        status=state.status,
        detail=state.detail,
        workflow=terms.workflow,
        source=terms.source,
        cron=terms.cron,
        timezone=terms.timezone,
        overlap=terms.overlap,
        catch_up=terms.catch_up,
        model=terms.model,
        tags=list(terms.tags),
        priority=terms.priority,
        tenant=terms.tenant,
        input=given,
        created_ms=state.created_ms,
        next_ms=upcoming(state, now_ms, NEXT_SHOWN),
        firings=[_firing(one, status_of) for one in reversed(state.entries[-FIRINGS_SHOWN:])],
    )


def row(state: ScheduleState, now_ms: int, status_of: StatusOf) -> ScheduleRow:
    """A schedule that was created, in a list."""
    assert state.terms is not None
    return ScheduleRow(
        name=state.name,
        status=state.status,
        workflow=state.terms.workflow,
        cron=state.terms.cron,
        timezone=state.terms.timezone,
        next_ms=next(iter(upcoming(state, now_ms, 1)), None),
        last=_firing(state.entries[-1], status_of) if state.entries else None,
    )


def _firing(entry: ScheduleEntry, status_of: StatusOf) -> Firing:
    requested = entry.run is not None and entry.outcome == "requested"
    return Firing(
        due_ms=entry.due_ms,
        outcome=entry.outcome,
        run=entry.run,
        status=status_of(entry.run) if requested and entry.run is not None else None,
        by=entry.by,
        reason=entry.reason,
        detail=entry.detail,
        count=entry.count,
        from_ms=entry.from_ms,
    )
