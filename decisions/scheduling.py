"""
What people may do to a schedule, as appends: create, pause, resume, remove it, or want a run now.
"""

from __future__ import annotations

import re

from mulligan.decisions.cron import check_cron, stamp
from mulligan.errors import InvalidInput, ScheduleExists, ScheduleUnknown
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Fact,
    ScheduleCreated,
    ScheduleFired,
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleTerms,
)
from mulligan.events.payload import Payload
from mulligan.events.schedules import schedule_stream
from mulligan.events.store import Append, AsNew, ByVersion, Move
from mulligan.events.tasks import run_task
from mulligan.projections.schedule import ScheduleState

MOST_OPEN = 100
"""Firings that may wait for a worker: who wants more runs than that has none."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_KEY = re.compile(r"[A-Za-z0-9_.:-]{1,80}")
_STAMP = re.compile(r"\d{8}T\d{6}Z")


def check_schedule_name(name: object) -> None:
    """Raises InvalidInput for what can't be a schedule's name."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"{ascii(name)[:80]} can't be a schedule's name: use up to 100 letters, digits, '_', "
            "'.' and '-', the first a letter or digit"
        )


def create(
    state: ScheduleState,
    op: str,
    terms: ScheduleTerms,
    given: Payload,
    definition: Payload | None,
    *,
    replace: bool = False,
    by: str,
) -> Append | None:
    """
    Create a schedule, or let these terms take the place of others. None: it is there by these.

    Raises:
        InvalidInput: it could never be due.
        ScheduleExists: it is there by other terms, which are not to be replaced.
    """
    check_cron(terms.cron, terms.timezone)
    created = ScheduleCreated(terms=terms, input=given, definition=definition, by=by)
    if state.status != "removed":
        if _same(state, created):
            return None
        if not replace:
            raise ScheduleExists(state.name)
    if state.version:
        return _append(state, op, created)
    stream = schedule_stream(state.name)
    return Append(
        run=stream,
        op=op,
        writer=AsNew(op),
        events=(NewEvent(created),),
        moves=(Move(run_task(stream), "ready"),),
    )


def pause(state: ScheduleState, op: str, reason: str = "", *, by: str) -> Append | None:
    """Let it fire no more until it is resumed; None: it is paused. Raises ScheduleUnknown."""
    _require(state)
    if state.status == "paused":
        return None
    return _append(state, op, SchedulePaused(by=by, reason=reason))


def resume(state: ScheduleState, op: str, *, by: str) -> Append | None:
    """Let it fire again, from now on; None: it does. Raises ScheduleUnknown."""
    _require(state)
    return _append(state, op, ScheduleResumed(by=by)) if state.status == "paused" else None


def remove(state: ScheduleState, op: str, *, by: str) -> Append | None:
    """End it; None: it was removed before. Raises ScheduleUnknown: there never was one."""
    if not state.version:
        raise ScheduleUnknown(state.name)
    return _append(state, op, ScheduleRemoved(by=by)) if state.status != "removed" else None


def run_now(state: ScheduleState, op: str, run: str, now_ms: int, *, by: str) -> Append | None:
    """
    Have it ask for a run now, whatever else goes on; None: that run was asked for before.

    Raises:
        ScheduleUnknown: there is no such schedule.
        InvalidInput: too many wait for a worker.
    """
    _require(state)
    if any(entry.run == run for entry in state.entries):
        return None
    waiting = sum(entry.outcome == "open" for entry in state.entries)
    if waiting >= MOST_OPEN:
        raise InvalidInput(
            f"{waiting} runs of schedule {state.name!r} wait to be asked for: start a worker, "
            "which asks for them"
        )
    return _append(state, op, ScheduleFired(run=run, due_ms=now_ms, by=by or "operator"))


def asked_run_id(name: str, key: str | None, now_ms: int, chance: str) -> str:
    """
    The id of a run that a person wants: by a key of theirs, or by the moment and some chance.

    Raises:
        InvalidInput: that can't be a key.
    """
    if key is None:
        return f"{name}@{stamp(now_ms)}-{chance}"
    if not isinstance(key, str) or not _KEY.fullmatch(key) or _STAMP.fullmatch(key):
        raise InvalidInput(
            f"key {ascii(key)[:80]} is none: use up to 80 letters, digits, '_', '.', ':' and '-', "
            "and not the form of a moment"
        )
    return f"{name}@{key}"


def _same(state: ScheduleState, created: ScheduleCreated) -> bool:
    before = (state.terms, _digest(state.input), _digest(state.definition))
    return before == (created.terms, _digest(created.input), _digest(created.definition))


def _digest(payload: Payload | None) -> str | None:
    return payload.digest if payload is not None else None


def _require(state: ScheduleState) -> None:
    if state.status == "removed":
        raise ScheduleUnknown(state.name)


def _append(state: ScheduleState, op: str, fact: Fact) -> Append:
    stream = schedule_stream(state.name)
    return Append(
        run=stream,
        op=op,
        writer=ByVersion(state.version),
        events=(NewEvent(fact),),
        moves=(Move(run_task(stream), "wake"),),
        causation=state.last_event or None,
    )
