"""Moments of a cron expression, across the days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given as given_that
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mulligan.decisions.cron import check_cron, due_after, due_between, latest_due, stamp
from mulligan.errors import InvalidInput

BERLIN = "Europe/Berlin"
DAY_MS = 86_400_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def moments(cron: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    found = islice(due_after(cron, zone, at(after)), count)
    return [datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone)).isoformat()[5:] for ms in found]


def test_local_time_stays_where_clocks_change() -> None:
    assert moments("0 6 * * 1", "2026-03-22T00:00+01:00", 2) == [
        "03-23T06:00:00+01:00",
        "03-30T06:00:00+02:00",
    ]


def test_what_falls_into_the_hour_left_out_comes_right_after_it_once() -> None:
    for cron in ("30 2 * * *", "0,30 2 * * *"):
        assert moments(cron, "2026-03-28T12:00+01:00", 2)[0] == "03-29T03:00:00+02:00"
        assert moments(cron, "2026-03-29T03:00+02:00", 1)[0].startswith("03-30T02:")


def test_what_falls_into_the_hour_shown_twice_comes_once() -> None:
    assert moments("30 2 * * *", "2026-10-24T12:00+02:00", 2) == [
        "10-25T02:30:00+02:00",
        "10-26T02:30:00+01:00",
    ]
    # Asked within the second of both hours: the first is over.
    assert moments("30 2 * * *", "2026-10-25T02:10+01:00", 1) == ["10-26T02:30:00+01:00"]


def test_every_hour_goes_by_the_time_that_passes() -> None:
    assert moments("30 * * * *", "2026-10-25T01:45+02:00", 3) == [
        "10-25T02:30:00+02:00",
        "10-25T02:30:00+01:00",
        "10-25T03:30:00+01:00",
    ]
    assert moments("30 * * * *", "2026-03-29T01:45+01:00", 1) == ["03-29T03:30:00+02:00"]


@pytest.mark.parametrize(
    ("cron", "zone", "told"),
    [
        ("0 6 * *", BERLIN, "five fields"),
        ("0 0 6 * * 1", BERLIN, "five fields"),
        ("61 6 * * *", BERLIN, "minute"),
        ("0 0 31 2 *", BERLIN, "day-of-month"),
        ("@daily", BERLIN, "five fields"),
        (None, BERLIN, "five fields"),
        ("0 6 * * 1", "Europe/Berlyn", "IANA"),
        ("0 6 * * 1", "../etc/passwd", "IANA"),
        ("0 6 * * 1", "Europe", "IANA"),
        ("0 6 * * 1", "", "IANA"),
        ("0 6 * * 1", None, "IANA"),
    ],
)
def test_what_can_never_be_due_is_refused(cron: object, zone: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        check_cron(cron, zone)


@given_that(st.text("0123456789*/-,#LWSUNMONJAN? ", max_size=20))
def test_any_text_is_an_expression_or_refused_in_our_words(text: str) -> None:
    try:
        check_cron(text, "UTC")
    except InvalidInput:
        return
    assert next(due_after(text, "UTC", 0)) > 0


CRONS = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "30 2 * * *", "0,30 1-3 * * *", "15 */2 * * *", "0 6 * * 1"]
)
ZONES = st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
AROUND = st.sampled_from(
    [
        at("2026-03-29T00:00Z"),
        at("2026-10-25T00:00Z"),
        at("2026-11-01T05:00Z"),
        at("2026-04-04T14:00Z"),
    ]
)


@hypothesis_settings(max_examples=150, deadline=None)
@given_that(CRONS, ZONES, AROUND, st.integers(0, DAY_MS), st.integers(0, DAY_MS))
def test_moments_do_not_depend_on_where_one_begins_to_look(
    cron: str, zone: str, around_ms: int, after_ms: int, into_ms: int
) -> None:
    begin_ms = around_ms - after_ms
    until_ms = begin_ms + 2 * DAY_MS
    found = list(due_between(cron, zone, begin_ms, until_ms))
    assert found == sorted(set(found))
    assert all(ms > begin_ms for ms in found)
    later_ms = begin_ms + into_ms
    assert list(due_between(cron, zone, later_ms, until_ms)) == [
        ms for ms in found if ms > later_ms
    ]
    assert latest_due(cron, zone, begin_ms, until_ms, 3) == found[-3:]


def test_a_year_of_minutes_is_not_walked_through() -> None:
    end_ms = at("2027-01-01T00:00Z")
    found = latest_due("* * * * *", BERLIN, at("2020-01-01T00:00Z"), end_ms, 100)
    assert found == [end_ms - 60_000 * back for back in range(99, -1, -1)]


def test_stamp_is_utc() -> None:
    assert stamp(at("2026-12-07T06:00:00+01:00")) == "20261207T050000Z"
    assert datetime.strptime(stamp(0), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() == 0
