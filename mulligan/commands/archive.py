"""`mulligan archive [RUN…]`: move ended runs into compressed files."""

from __future__ import annotations

import sys
from typing import Literal

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.moments import Moment
from mulligan.commands.printing import json_option, legible, show_json
from mulligan.errors import InvalidInput
from mulligan.projections.projector import Projector
from mulligan.projections.rows import SUMMARIES, read_rows

KEPT_FOR = "7d"
"""How long ended runs stay on the server unless somebody says otherwise."""


class ArchivedRuns(msgspec.Struct, kw_only=True):
    """The runs that are in the archive now, where that is, and those that could not be, by run."""

    kind: Literal["archived"] = "archived"
    archive: str
    runs: list[str]
    left: dict[str, str]


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--older-than",
    "ended_before",
    type=Moment(),
    help=f"Runs that ended before: 12h, 30d, or a time.  [default without RUN: {KEPT_FOR}]",
)
@json_option
def archive(runs: tuple[str, ...], ended_before: int | None, as_json: bool) -> None:
    """
    Move ended runs out of the log's server into compressed files, in MULLIGAN_ARCHIVE_DIR or the
    data directory: the RUNs named, or all that ended a while ago. They are read from there by
    status, trace, fork and all others as before; on the server stays a row by which their ids are
    known.
    """
    if runs and ended_before is not None:
        raise InvalidInput("name runs, or say how old they have to be, not both")
    with Client() as client:
        chosen = list(runs) or _ended(client, ended_before)
        done = client.archive(chosen)
        place = str(client.settings.archive)
    if as_json:
        show_json(ArchivedRuns(archive=place, runs=done.runs, left=done.left))
    else:
        for run, why in done.left.items():
            click.echo(f"{run}: not archived: {legible(why)}", err=True)
        click.echo(f"{len(done.runs)} archived in {place}", err=True)
    if runs and done.left:
        sys.exit(InvalidInput.exit_code)


def _ended(client: Client, before_ms: int | None) -> list[str]:
    """The runs on the server that ended before then, the oldest first."""
    if before_ms is None:
        before_ms = Moment().convert(KEPT_FOR, None, None)
    Projector(client.store, lambda sentence: click.echo(sentence, err=True)).catch_up()
    there = {run for run, row in client.store.runs() if row.phase == "closed"}
    rows = [row for row in read_rows(client.store, SUMMARIES) if row.run in there]
    old = [row for row in rows if row.ended_ms is not None and row.ended_ms < before_ms]
    return [row.run for row in sorted(old, key=lambda row: (row.ended_ms, row.run))]
