"""`mulligan list`: the runs, newest first."""

from __future__ import annotations

from typing import Literal, get_args

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.moments import Moment
from mulligan.commands.printing import clock, json_option, legible, show_json, table
from mulligan.errors import FeedTrimmed
from mulligan.events.store import EventStore
from mulligan.projections.projector import LAG_LOOK, SUMMARIES, Projector, lag, read_rows
from mulligan.projections.state import ASKS_A_PERSON, RunStatus
from mulligan.projections.summary import RunSummary

DEFAULT_LIMIT = 100

MANY_ENTRIES = 1_000
"""A list whose rows lacked so much took noticeably longer: people are told why."""


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


@click.command("list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(get_args(RunStatus)),
    help="May be given again.",
)
@click.option("--workflow", help="The workflow's name.")
@click.option("--tag", "tags", multiple=True, help="Given again: runs that have them all.")
@click.option("--since", type=Moment(), help="Requested then or later: 2h, 7d, or a time.")
@click.option("--until", type=Moment(), help="Requested before.")
@click.option("--limit", type=click.IntRange(1), default=DEFAULT_LIMIT, show_default=True)
@json_option
def list_runs(
    statuses: tuple[str, ...],
    workflow: str | None,
    tags: tuple[str, ...],
    since: int | None,
    until: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    wanted = Filter(statuses=statuses, workflow=workflow, tags=tags, since_ms=since, until_ms=until)
    with Client() as client:
        show(find(client, wanted, limit), as_json)


def find(client: Client, wanted: Filter, limit: int) -> RunList:
    """The newest runs that a filter allows, as of now."""
    projector = Projector(client.store, lambda sentence: click.echo(sentence, err=True))
    caught_up = projector.catch_up()
    rows = [row for row in read_rows(client.store, SUMMARIES) if wanted.allows(row)]
    rows.sort(key=lambda row: (-row.requested_ms, row.run))
    return RunList(
        runs=rows[:limit],
        left_off=max(len(rows) - limit, 0),
        caught_up=caught_up,
        behind=_behind(client.store),
    )


def _behind(store: EventStore) -> int:
    try:
        return lag(store, SUMMARIES)
    except FeedTrimmed:  # between the two looks; the next list rebuilds its rows, and says so
        return LAG_LOOK


def show(found: RunList, as_json: bool) -> None:
    """Print a list of runs."""
    if as_json:
        show_json(found)
        return
    _say_lag(found)
    if not found.runs:
        click.echo("no such runs; `mulligan demo` makes one", err=True)
        return
    cells = [
        (
            row.run,
            row.workflow,
            _standing(row),
            clock(row.requested_ms),
            clock(row.ended_ms),
        )
        for row in found.runs
    ]
    table(("run", "workflow", "status", "requested (UTC)", "ended (UTC)"), cells)
    _say_waiting(found)
    _say_unreadable(found)
    if found.left_off:
        click.echo(f"… and {found.left_off} older; `--limit` shows more", err=True)


def _standing(row: RunSummary) -> str:
    if row.unreadable is not None:
        return f"{row.status} (unreadable)"
    return row.status + (f" ({row.reason})" if row.reason else "")


def _say_unreadable(found: RunList) -> None:
    """Of which runs this is not the end, and why."""
    for row in found.runs:
        if row.unreadable is not None:
            click.echo(f"unreadable: {legible(row.unreadable)}", err=True)


def _say_waiting(found: RunList) -> None:
    """What people are asked; how to answer, each run's status tells."""
    waiting = [row for row in found.runs if row.reason in ASKS_A_PERSON]
    for row in waiting:
        click.echo(f"{row.run}: {legible(row.detail)}")
    if waiting:
        click.echo("`mulligan status RUN` shows it whole, and how to answer", err=True)


def _say_lag(found: RunList) -> None:
    if found.caught_up >= MANY_ENTRIES:
        click.echo(
            f"the stored rows were {found.caught_up:,} feed entries behind and have been caught "
            "up; `mulligan projector` keeps them so",
            err=True,
        )
    if found.behind:
        click.echo(f"{found.behind:,} feed entries have come since: list again", err=True)
