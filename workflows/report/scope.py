"""The scope: which week, which members. What the request leaves open is asked, never assumed."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from mulligan.tools.input_needed import InputNeeded
from mulligan.tools.registry import tool
from mulligan.workflows.report.members import ALL, Members, same_name, stands_in
from mulligan.workflows.report.weeks import Week, week_of, weeks_in, zone_named

WEEK, MEMBERS = "week", "members"
"""The questions, by id."""


@tool(effect="read")
def iso_week(day: str) -> dict[str, str]:
    """The ISO week that a day (YYYY-MM-DD) is in, with its first and its last day."""
    week = Week(*date.fromisoformat(day).isocalendar()[:2])
    return {"week": str(week), **_days(week)}


def scope(
    request: dict[str, Any], parsed: dict[str, Any], answers: dict[str, str]
) -> dict[str, Any]:
    """
    The scope that a parsed request comes to. What a model says that the request says counts only as
    far as the request does say it.

    Raises InputNeeded: the week, or whose work, is open.
    """
    zone = zone_named(request["timezone"])
    week = _week(request, parsed, answers)
    members = _members(request, parsed, answers)
    start, end = week.bounds(zone)
    return {
        "kind": request["kind"],
        "week": str(week),
        **_days(week),
        "starts_at": start.isoformat(),
        "ends_at": end.isoformat(),
        "timezone": zone.key,
        "members": members,
    }


def _week(request: dict[str, Any], parsed: dict[str, Any], answers: dict[str, str]) -> Week:
    asked_at = datetime.fromisoformat(request["asked_at"])
    zone = zone_named(request["timezone"])
    if WEEK in answers:
        try:
            return _begun(week_of(answers[WEEK], asked_at, zone), asked_at)
        except ValueError as error:
            raise _which_week(request, str(error)) from None
    said = parsed["week_said"]
    if not said or not stands_in(said, request["text"]):
        raise _which_week(request, "the request names no week")
    for spelled in (said, parsed["week"] or ""):
        try:
            week = _begun(week_of(spelled, asked_at, zone), asked_at)
        except ValueError:
            continue
        # A model that reads other words as a week must not pass over those that need no reading.
        named = weeks_in(request["text"], asked_at, zone)
        if named and week not in named:
            others = ", ".join(sorted(map(str, named)))
            raise _which_week(request, f"{said[:80]!r} may be {week}, and it names {others}")
        return week
    raise _which_week(request, f"{said[:80]!r} is no week that has begun")


def _begun(week: Week, asked_at: datetime) -> Week:
    """The week. Raises ValueError where nothing of it was over when the report was asked for."""
    if week.monday > asked_at.date():
        raise ValueError(f"{week} has not begun")
    return week


def _which_week(request: dict[str, Any], because: str) -> InputNeeded:
    zone = zone_named(request["timezone"])
    asked_at = datetime.fromisoformat(request["asked_at"])
    options = [
        {"label": said, "description": str(week_of(said, asked_at, zone))}
        for said in ("last week", "this week")
    ]
    text = f"Which week is the report about? ({because}; YYYY-Www is a week too)"
    return InputNeeded({"id": WEEK, "question": text, "options": options})


def _members(request: dict[str, Any], parsed: dict[str, Any], answers: dict[str, str]) -> list[str]:
    members = Members(request["members"])
    every = [one.name for one in members]
    said = parsed["members"]
    if MEMBERS in answers:
        answer = answers[MEMBERS]
        said = [] if same_name(answer, ALL) else _listed(answer, members)
    unknown = [name for name in said if members.find(name) is None]
    if unknown:
        raise InputNeeded(
            {
                "id": MEMBERS,
                "question": f"Whose work is the report about? {', '.join(unknown)}: no such "
                f"member; there are {', '.join(every)} (several: with commas)",
                "options": [{"label": name} for name in (ALL, *every)],
            }
        )
    found = {members.find(name) for name in said}
    return [name for name in every if name in found] if said else every


def _listed(answer: str, members: Members) -> list[str]:
    """The names between an answer's commas; a member's own name may have some."""
    parts = answer.split(",")
    names: list[str] = []
    while parts:
        ends = range(len(parts), 0, -1)
        end = next((n for n in ends if members.find(",".join(parts[:n])) is not None), 1)
        names.append(",".join(parts[:end]).strip())
        parts = parts[end:]
    return names


def _days(week: Week) -> dict[str, str]:
    return {
        "first_day": week.monday.isoformat(),
        "last_day": (week.monday + timedelta(days=6)).isoformat(),
    }
