"""
What the holder of a schedule's task has to do: which moments fire, which are skipped, what is asked
for next (see `docs/schedules.md`).

A firing is in the log before its run is asked for, and the run's id follows from the moment:
whoever takes over asks for the same run, which is there once however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec

from mulligan.decisions import cron
from mulligan.decisions.decision import Release
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import (
    Fact,
    ScheduleFired,
    ScheduleRunRequested,
    ScheduleSkipped,
    ScheduleTerms,
    SkipReason,
)
from mulligan.events.payload import Payload
from mulligan.projections.schedule import ScheduleState, compacted, evolve

ON_TIME_MS = 60_000
"""A moment that passed no longer ago is due now, not missed: wake-ups take their time."""

MOST_CAUGHT_UP = 100
"""Missed moments that the policy `all` makes up for: the latest."""

MOST_COUNTED = 10_000
"""Missed moments that are counted one by one (40 ms); a longer row of them is told as so many."""

MOST_FACTS = 200
"""In a stream before it begins anew: reading so many takes a millisecond."""

LONGEST_DETAIL = 2_000
"""Characters of why a run was not asked for."""

LONGEST_TIMER_MS = 365 * 86_400_000
"""Looked at once a year, if it is due later."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking for a firing's run: it is there, or was refused."""

    run: str
    due_ms: int
    refused: SkipReason | None = None
    detail: str = ""


class AskRun(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the run of a firing, by these terms."""

    run: str
    due_ms: int
    terms: ScheduleTerms
    input: Payload
    definition: Payload | None

    def refused(self, reason: SkipReason, detail: str) -> Asked:
        """That its run could not be asked for."""
        detail = detail[:LONGEST_DETAIL]
        return Asked(run=self.run, due_ms=self.due_ms, refused=reason, detail=detail)


class ScheduleDecision(msgspec.Struct, frozen=True):
    """What to append, and then: the firing whose run is to be asked for, or how to release."""

    events: tuple[NewEvent, ...]
    begins_anew: bool
    ask: AskRun | None
    release: Release | None


def decide(
    state: ScheduleState,
    now_ms: int,
    is_open: Callable[[str], bool],
    asked: Asked | None = None,
) -> ScheduleDecision:
    """
    The next append of a schedule's task, given what came of the last firing that was asked for.
    `is_open` says whether a run is still under way.
    """
    facts: list[Fact] = []
    begins_anew = state.facts >= MOST_FACTS
    if begins_anew:
        facts.append(compacted(state))
    if asked is not None:
        facts.append(_came_to(asked))
    then = _after(state, facts, now_ms)
    if then.open_entry is None:
        due = _due(then, now_ms, is_open)
        facts += due
        then = _after(then, due, now_ms)
    ask = _ask(then)
    release = _release(then, now_ms) if ask is None else None
    return ScheduleDecision(tuple(map(NewEvent, facts)), begins_anew, ask, release)


def given_up(state: ScheduleState) -> Asked | None:
    """What comes of the open firing of a schedule over which workers were lost again and again."""
    ask = _ask(state)
    lost = "its workers were lost again and again while they asked for its run"
    return ask.refused("workers_lost", lost) if ask is not None else None


def _ask(state: ScheduleState) -> AskRun | None:
    entry = state.open_entry
    if entry is None or entry.run is None or state.terms is None or state.input is None:
        return None
    return AskRun(
        run=entry.run,
        due_ms=entry.due_ms,
        terms=state.terms,
        input=state.input,
        definition=state.definition,
    )


def _after(state: ScheduleState, facts: list[Fact], now_ms: int) -> ScheduleState:
    for fact in facts:
        version = state.version + 1
        event = Envelope(id="tried", run=state.name, version=version, time_ms=now_ms, data=fact)
        state = evolve(state, event)
    return state


def _came_to(asked: Asked) -> Fact:
    if asked.refused is None:
        return ScheduleRunRequested(run=asked.run)
    return ScheduleSkipped(
        reason=asked.refused, due_ms=asked.due_ms, run=asked.run, detail=asked.detail
    )


def _release(state: ScheduleState, now_ms: int) -> Release:
    due_ms = next_due(state, now_ms)
    if due_ms is None:
        return Release("wait")
    return Release("timer", min(max(due_ms - now_ms, 0), LONGEST_TIMER_MS))


def next_due(state: ScheduleState, now_ms: int) -> int | None:
    """When a schedule is due next, seen from `now_ms`; None: not as it stands."""
    return next(iter(upcoming(state, now_ms, 1)), None)


def upcoming(state: ScheduleState, now_ms: int, count: int) -> list[int]:
    """The next `count` moments, seen from `now_ms`."""
    terms = state.terms
    if terms is None or state.status != "active":
        return []
    after_ms = max(state.cursor_ms, now_ms)
    return list(islice(cron.due_after(terms.cron, terms.timezone, after_ms), count))


def _due(state: ScheduleState, now_ms: int, is_open: Callable[[str], bool]) -> list[Fact]:
    """What becomes of all moments up to now that are not dealt with yet."""
    terms = state.terms
    if terms is None or state.status != "active":
        return []
    latest = cron.latest_due(terms.cron, terms.timezone, state.cursor_ms, now_ms, MOST_CAUGHT_UP)
    fires = _caught_up(terms, latest, now_ms)
    before_ms = fires[0] - 1 if fires else now_ms
    skipped = _missed(terms, state.cursor_ms, before_ms)
    return [*skipped, *_fired(state, fires, is_open)]


def _caught_up(terms: ScheduleTerms, latest: list[int], now_ms: int) -> list[int]:
    match terms.catch_up:
        case "none":
            return [due_ms for due_ms in latest if due_ms >= now_ms - ON_TIME_MS][-1:]
        case "last":
            return latest[-1:]
        case "all":
            return latest


def _missed(terms: ScheduleTerms, after_ms: int, until_ms: int) -> list[Fact]:
    """One fact about all moments of that time, if there are any."""
    missed = cron.due_between(terms.cron, terms.timezone, after_ms, until_ms)
    counted = list(islice(missed, MOST_COUNTED))
    if not counted:
        return []
    last_ms = counted[-1]
    if len(counted) == MOST_COUNTED:
        last_ms = cron.latest_due(terms.cron, terms.timezone, after_ms, until_ms, 1)[0]
    return [_skipped("missed", [counted[0], last_ms], len(counted))]


def _skipped(reason: SkipReason, moments: list[int], count: int, detail: str = "") -> Fact:
    first_ms = moments[0] if count > 1 else None
    return ScheduleSkipped(
        reason=reason, due_ms=moments[-1], count=count, from_ms=first_ms, detail=detail
    )


def _fired(state: ScheduleState, fires: list[int], is_open: Callable[[str], bool]) -> list[Fact]:
    terms = state.terms
    if terms is None or not fires:
        return []
    if terms.overlap == "allow":
        return [_firing(state.name, due_ms) for due_ms in fires]
    runs = (state.scheduled_run, state.asked_run)
    under_way = next((run for run in runs if run is not None and is_open(run)), None)
    if under_way is not None:
        return [_skipped("overlap", fires, len(fires), f"run {under_way!r} has not ended")]
    first, *others = fires
    firing = _firing(state.name, first)
    if not others:
        return [firing]
    overlap = f"run {firing.run!r} is asked for at the same time"
    return [firing, _skipped("overlap", others, len(others), overlap)]


def _firing(name: str, due_ms: int) -> ScheduleFired:
    return ScheduleFired(run=scheduled_run_id(name, due_ms), due_ms=due_ms)


def scheduled_run_id(name: str, due_ms: int) -> str:
    """The id of the run that a schedule asks for at a moment: `weekly@20261207T060000Z`."""
    return f"{name}@{cron.stamp(due_ms)}"


def schedule_tag(name: str) -> str:
    """The tag of all runs that a schedule asks for."""
    return f"schedule:{name}"
