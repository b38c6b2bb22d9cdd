"""
Which runs there are: a list that is asked for by status, workflow, tag and time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from mulligan.errors import FeedTrimmed
from mulligan.events.store import EventStore
from mulligan.projections.projector import LAG_LOOK, SUMMARIES, Projector, lag, read_rows
from mulligan.projections.summary import RunSummary

DEFAULT_LIMIT = 100


class RunList(msgspec.Struct, kw_only=True):
    """
    Runs, newest first; `left_off` counts those beyond the limit.

    The list is made from stored rows, which are caught up with the log first: `caught_up` counts
    the feed entries that they lacked, `behind` those that have come since and are not in it (up to
    1,000 a partition are counted).
    """

    kind: Literal["list"] = "list"
    runs: list[RunSummary]
    left_off: int = 0
    caught_up: int = 0
    behind: int = 0


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are asked for: all that every given field allows."""

    statuses: tuple[str, ...] = ()
    workflow: str | None = None
    tags: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None

    def allows(self, row: RunSummary) -> bool:
        """Whether a run is among them; the times are those of its request, `until` is excluded."""
        return (
            (not self.statuses or row.status in self.statuses)
            and self.workflow in (None, row.workflow)
            and set(self.tags) <= set(row.tags)
            and (self.since_ms is None or row.requested_ms >= self.since_ms)
            and (self.until_ms is None or row.requested_ms < self.until_ms)
        )


def find(store: EventStore, wanted: Filter, limit: int, told: Callable[[str], None]) -> RunList:
    """The newest runs that a filter allows, as of now; what a person should know is `told`."""
    caught_up = Projector(store, told).catch_up()
    rows = [row for row in read_rows(store, SUMMARIES) if wanted.allows(row)]
    rows.sort(key=lambda row: (-row.requested_ms, row.run))
    return RunList(
        runs=rows[:limit],
        left_off=max(len(rows) - limit, 0),
        caught_up=caught_up,
        behind=_behind(store),
    )


def _behind(store: EventStore) -> int:
    try:
        return lag(store, SUMMARIES)
    except FeedTrimmed:  # between the two looks; the next list rebuilds its rows, and says so
        return LAG_LOOK
