"""Weeks of a report (REPT-1): by ISO 8601, in the zone named, at the time recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mulligan.workflows.report.weeks import Week, week_of, zone_named

BERLIN = zone_named("Europe/Berlin")
SUNDAY_LATE = datetime(2026, 1, 4, 23, 30, tzinfo=UTC)  # Monday already in Berlin


@pytest.mark.parametrize(
    ("said", "zone", "week"),
    [
        ("this week", "UTC", "2026-W01"),
        ("This  Week", "Europe/Berlin", "2026-W02"),
        ("last week", "UTC", "2025-W52"),
        ("last week", "Europe/Berlin", "2026-W01"),
        (" 2026-W53 ", "UTC", "2026-W53"),
    ],
)
def test_rept1_a_week_is_read_at_the_recorded_time(said: str, zone: str, week: str) -> None:
    assert str(week_of(said, SUNDAY_LATE, zone_named(zone))) == week


@pytest.mark.parametrize(
    "said", ["", "next week", "2025-W53", "2026-W00", "2026-W1", "0000-W01", "0001-W01", "9999-W52"]
)
def test_rept1_what_names_no_week_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="is no week; say YYYY-Www"):
        week_of(said, SUNDAY_LATE, BERLIN)


def test_rept1_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="recorded_at: has no time zone"):
        week_of("this week", datetime(2026, 1, 4), BERLIN)


@pytest.mark.parametrize("name", ["", "Europe/Nowhere", "../etc/passwd"])
def test_rept1_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        zone_named(name)


@pytest.mark.parametrize(("number", "hours"), [(13, 167), (43, 169), (20, 168)])
def test_rept1_a_week_lasts_as_its_zones_clocks_do(number: int, hours: int) -> None:
    start, end = Week(2026, number).bounds(BERLIN)
    assert end - start == timedelta(hours=hours)
