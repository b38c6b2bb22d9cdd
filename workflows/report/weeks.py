"""Weeks by ISO 8601, in a named time zone: what a request's week means at a recorded time."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_WEEK = re.compile(r"(\d{4})-W(\d{2})")
_BACK = {"this week": 0, "last week": 1}
_SPELLED = re.compile(rf"(?<!\w)(?:{'|'.join(_BACK)}|{_WEEK.pattern})(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class Week:
    """An ISO week: Monday to Sunday of the year that its Thursday is in."""

    year: int
    number: int

    def __str__(self) -> str:
        return f"{self.year:04}-W{self.number:02}"

    @property
    def monday(self) -> date:
        """Its first day."""
        return date.fromisocalendar(self.year, self.number, 1)

    def bounds(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Its first moment and the next week's, in UTC: 167 to 169 hours where clocks change."""
        first, after = self.monday, self.monday + timedelta(days=7)
        start, end = (datetime.combine(day, time(), zone).astimezone(UTC) for day in (first, after))
        return start, end


def zone_named(name: str) -> ZoneInfo:
    """
    The time zone of this name.

    Raises:
        ValueError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"timezone: {name!r} is no time zone; say one like Europe/Berlin"
        ) from None


def week_of(said: str, recorded_at: datetime, zone: ZoneInfo) -> Week:
    """
    The week that a request names: `YYYY-Www`, or "this week" and "last week" as seen from
    `recorded_at` (the run's, never a clock's: a replay must find the same week).

    Raises:
        ValueError: it names no week, or `recorded_at` has no time zone.
    """
    if recorded_at.tzinfo is None:
        raise ValueError("recorded_at: has no time zone")
    folded = " ".join(said.lower().split())
    if folded in _BACK:
        day = recorded_at.astimezone(zone).date() - timedelta(weeks=_BACK[folded])
        return Week(*day.isocalendar()[:2])
    return _written(said.strip())


def weeks_in(text: str, recorded_at: datetime, zone: ZoneInfo) -> set[Week]:
    """The weeks that a text names in the words of `week_of`."""
    found = set()
    for one in _SPELLED.finditer(" ".join(text.split())):
        with suppress(ValueError):
            found.add(week_of(one[0].upper() if "-" in one[0] else one[0], recorded_at, zone))
    return found


def _written(said: str) -> Week:
    found = _WEEK.fullmatch(said)
    try:
        year, number = (int(part) for part in found.groups()) if found else (0, 0)
        date.fromisocalendar(year if 1 < year < 9999 else 0, number, 1)
    except ValueError:
        message = f"week: {said!r} is no week; say YYYY-Www, 'this week' or 'last week'"
        raise ValueError(message) from None
    return Week(year, number)
