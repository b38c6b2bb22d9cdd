"""
Which runs there are: a list that is asked for by status, workflow, tag, tenant and time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mulligan.errors import FeedTrimmed, InvalidInput
from mulligan.events.store import EventStore
from mulligan.projections.projector import LAG_LOOK, Projector, lag
from mulligan.projections.rows import SUMMARIES, read_rows
from mulligan.projections.summary import RunSummary

DEFAULT_LIMIT = 100


class RunList(msgspec.Struct, kw_only=True):
    """
    Runs, newest first; `left_off` counts those beyond the limit, and `next` is where a list of them
    begins (null: there are none).

    The list is made from stored rows, which are caught up with the log first: `caught_up` counts
    the feed entries that they lacked, `behind` those that have come since and are not in it (up to
    1,000 a partition are counted).
    """

    kind: Literal["list"] = "list"
    runs: list[RunSummary]
    left_off: int = 0
    next: str | None = None
    caught_up: int = 0
    behind: int = 0


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are asked for: all that every given field allows."""

    statuses: tuple[str, ...] = ()
    workflow: str | None = None
    tags: tuple[str, ...] = ()
    tenant: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def allows(self, row: RunSummary) -> bool:
        """Whether a run is among them; the times are those of its request, `until` is excluded."""
        return (
            (not self.statuses or row.status in self.statuses)
            and self.workflow in (None, row.workflow)
            and set(self.tags) <= set(row.tags)
            and self.tenant in (None, row.tenant)
            and (self.since_ms is None or row.requested_ms >= self.since_ms)
            and (self.until_ms is None or row.requested_ms < self.until_ms)
        )


def find(
    store: EventStore,
    wanted: Filter,
    limit: int,
    told: Callable[[str], None],
    after: str | None = None,
) -> RunList:
    """
    The newest runs that a filter allows, as of now; `after` is the `next` of a list, to go on from
    there. What a person should know is `told`.

    Raises:
        InvalidInput: `after` is no such place.
    """
    begin = place_of(after)
    caught_up = Projector(store, told).catch_up()
    rows = [row for row in read_rows(store, SUMMARIES) if wanted.allows(row)]
    rows.sort(key=order_of)
    left = rows[bisect_right(rows, begin, key=order_of) :] if begin is not None else rows
    return page_of(left, limit, caught_up=caught_up, behind=behind(store))


def page_of(rows: Sequence[RunSummary], limit: int, *, caught_up: int, behind: int) -> RunList:
    """The first of some rows, which are in order."""
    left_off = max(len(rows) - limit, 0)
    return RunList(
        runs=list(rows[:limit]),
        left_off=left_off,
        next=f"{rows[limit - 1].requested_ms}:{rows[limit - 1].run}" if left_off else None,
        caught_up=caught_up,
        behind=behind,
    )


def order_of(row: RunSummary) -> tuple[int, str]:
    """What lists are ordered by: the newest first, those of one moment by their ids."""
    return -row.requested_ms, row.run


def place_of(after: str | None) -> tuple[int, str] | None:
    """The place in that order that the `next` of a list names. Raises InvalidInput: none."""
    if after is None:
        return None
    requested_ms, colon, run = after.partition(":")
    if not (colon and run and requested_ms.isascii() and requested_ms.isdecimal()):
        raise InvalidInput(
            f"after {ascii(after)[:80]} is no place in a list: take the `next` of one"
        )
    return -int(requested_ms), run


def behind(store: EventStore) -> int:
    """Feed entries that the stored rows lack, at most 1,000 a partition counted."""
    try:
        return lag(store, SUMMARIES)
    except FeedTrimmed:  # between the two looks; the next list rebuilds its rows, and says so
        return LAG_LOOK
