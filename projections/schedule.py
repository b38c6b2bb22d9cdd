"""
The fold of a schedule's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from mulligan.events.envelope import Envelope
from mulligan.events.facts import (
    Fact,
    ScheduleCompacted,
    ScheduleCreated,
    ScheduleEntry,
    ScheduleFired,
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleRunRequested,
    ScheduleSkipped,
    ScheduleStatus,
    ScheduleTerms,
)
from mulligan.events.payload import Payload

MOST_ENTRIES = 100
"""Of what came of the latest firings; those that are still open are kept beside."""


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """
    A schedule at a version of its stream, which holds `facts` of them. Moments up to `cursor_ms`
    are dealt with. `scheduled_run` and `asked_run` are the runs that it asked for last: by its
    clock, and because a person wanted one.
    """

    name: str
    version: int = 0
    last_event: str = ""
    facts: int = 0
    status: ScheduleStatus = "removed"
    detail: str = ""
    terms: ScheduleTerms | None = None
    input: Payload | None = None
    definition: Payload | None = None
    created_ms: int = 0
    cursor_ms: int = 0
    entries: tuple[ScheduleEntry, ...] = ()
    """oldest first"""
    scheduled_run: str | None = None
    asked_run: str | None = None

    @property
    def open_entry(self) -> ScheduleEntry | None:
        """The oldest firing whose run is still to be asked for."""
        return next((entry for entry in self.entries if entry.outcome == "open"), None)


Change = Callable[[ScheduleState, Envelope, Any], ScheduleState]
_CHANGES: dict[type[Fact], Change] = {}


def fold(name: str, events: Iterable[Envelope]) -> ScheduleState:
    """A schedule's state, of the events of its stream."""
    state = ScheduleState(name=name)
    for event in events:
        state = evolve(state, event)
    return state


def evolve(state: ScheduleState, event: Envelope) -> ScheduleState:
    """The state one event further."""
    change = _CHANGES[type(event.data)]
    changed = change(state, event, event.data)
    facts = 1 if isinstance(event.data, ScheduleCompacted) else state.facts + 1
    return replace(changed, version=event.version, last_event=event.id, facts=facts)


def _on(kind: type[Fact]) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        _CHANGES[kind] = change
        return change

    return register


@_on(ScheduleCreated)
def _created(state: ScheduleState, event: Envelope, fact: ScheduleCreated) -> ScheduleState:
    """Terms that take the place of others keep a schedule paused, and what it did before."""
    return replace(
        state,
        terms=fact.terms,
        input=fact.input,
        definition=fact.definition,
        status="paused" if state.status == "paused" else "active",
        created_ms=event.time_ms,
        cursor_ms=event.time_ms,
    )


@_on(SchedulePaused)
def _paused(state: ScheduleState, event: Envelope, fact: SchedulePaused) -> ScheduleState:
    return replace(state, status="paused", detail=fact.reason)


@_on(ScheduleResumed)
def _resumed(state: ScheduleState, event: Envelope, fact: ScheduleResumed) -> ScheduleState:
    cursor_ms = max(state.cursor_ms, event.time_ms)
    return replace(state, status="active", detail="", cursor_ms=cursor_ms)


@_on(ScheduleRemoved)
def _removed(state: ScheduleState, event: Envelope, fact: ScheduleRemoved) -> ScheduleState:
    return replace(state, status="removed", detail="")


@_on(ScheduleFired)
def _fired(state: ScheduleState, event: Envelope, fact: ScheduleFired) -> ScheduleState:
    fired = ScheduleEntry(due_ms=fact.due_ms, run=fact.run, by=fact.by, fired_ms=event.time_ms)
    return _with_entry(_dealt_with(state, fact.due_ms) if fact.by is None else state, fired)


@_on(ScheduleRunRequested)
def _requested(state: ScheduleState, event: Envelope, fact: ScheduleRunRequested) -> ScheduleState:
    state, fired = _settled(state, fact.run, outcome="requested")
    if fired is None or fired.by is None:
        return replace(state, scheduled_run=fact.run)
    return replace(state, asked_run=fact.run)


@_on(ScheduleSkipped)
def _skipped(state: ScheduleState, event: Envelope, fact: ScheduleSkipped) -> ScheduleState:
    if fact.run is not None:
        told = {"outcome": "skipped", "reason": fact.reason, "detail": fact.detail}
        return _settled(state, fact.run, **told)[0]
    skipped = ScheduleEntry(
        due_ms=fact.due_ms,
        outcome="skipped",
        reason=fact.reason,
        detail=fact.detail,
        count=fact.count,
        from_ms=fact.from_ms,
        fired_ms=event.time_ms,
    )
    return _with_entry(_dealt_with(state, fact.due_ms), skipped)


@_on(ScheduleCompacted)
def _compacted(state: ScheduleState, event: Envelope, fact: ScheduleCompacted) -> ScheduleState:
    return ScheduleState(
        name=state.name,
        **{field: getattr(fact, field) for field in fact.__struct_fields__},
    )


def compacted(state: ScheduleState) -> ScheduleCompacted:
    """
    All that a stream has come to.

    Raises:
        ValueError: nothing has been created there.
    """
    if state.terms is None or state.input is None:
        raise ValueError(f"there is no schedule {state.name!r}")
    return ScheduleCompacted(
        terms=state.terms,
        input=state.input,
        definition=state.definition,
        status=state.status,
        detail=state.detail,
        created_ms=state.created_ms,
        cursor_ms=state.cursor_ms,
        entries=state.entries,
        scheduled_run=state.scheduled_run,
        asked_run=state.asked_run,
    )


def _dealt_with(state: ScheduleState, due_ms: int) -> ScheduleState:
    return replace(state, cursor_ms=max(state.cursor_ms, due_ms))


def _with_entry(state: ScheduleState, entry: ScheduleEntry) -> ScheduleState:
    entries = (*state.entries, entry)
    recent = entries[-MOST_ENTRIES:]
    left = tuple(old for old in entries[:-MOST_ENTRIES] if old.outcome == "open")
    return replace(state, entries=(*left, *recent))


def _settled(
    state: ScheduleState, run: str, **told: Any
) -> tuple[ScheduleState, ScheduleEntry | None]:
    """The state with what came of the open firing of `run`, and that firing."""
    entries = list(state.entries)
    for at, entry in enumerate(entries):
        if entry.run == run and entry.outcome == "open":
            entries[at] = replace(entry, **told)
            return replace(state, entries=tuple(entries)), entry
    return state, None
