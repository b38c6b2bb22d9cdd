"""`mulligan list`: the runs, newest first."""

from __future__ import annotations

from typing import get_args

import click

from mulligan.client import Client
from mulligan.commands.moments import Moment
from mulligan.commands.printing import clock, json_option, legible, show_json, table
from mulligan.projections.run_list import DEFAULT_LIMIT, Filter, RunList, find
from mulligan.projections.state import ASKS_A_PERSON, RunStatus
from mulligan.projections.summary import RunSummary

MANY_ENTRIES = 1_000
"""A list whose rows lacked so much took noticeably longer: people are told why."""


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
@click.option("--tenant", help="Runs that are for it.")
@click.option("--since", type=Moment(), help="Requested then or later: 2h, 7d, or a time.")
@click.option("--until", type=Moment(), help="Requested before.")
@click.option("--after", metavar="NEXT", help="Go on where another list says `next`.")
@click.option("--limit", type=click.IntRange(1), default=DEFAULT_LIMIT, show_default=True)
@json_option
def list_runs(
    statuses: tuple[str, ...],
    workflow: str | None,
    tags: tuple[str, ...],
    tenant: str | None,
    since: int | None,
    until: int | None,
    after: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    wanted = Filter(
        statuses=statuses,
        workflow=workflow,
        tags=tags,
        tenant=tenant,
        since_ms=since,
        until_ms=until,
    )
    with Client() as client:
        show(newest(client, wanted, limit, after), as_json, filtered=wanted != Filter())


def newest(client: Client, wanted: Filter, limit: int, after: str | None = None) -> RunList:
    """The newest runs that a filter allows; what people should know of it goes to stderr."""
    return find(client.store, wanted, limit, lambda sentence: click.echo(sentence, err=True), after)


def show(found: RunList, as_json: bool, *, filtered: bool) -> None:
    """Print a list of runs, of all or of those that a filter allows."""
    if as_json:
        show_json(found)
        return
    _say_lag(found)
    if not found.runs:
        told = "no such runs" if filtered else "no runs; `mulligan demo` makes one"
        click.echo(told, err=True)
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
    if row.awaits_turn:
        return f"{row.status} (turn of {row.tenant})"
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
