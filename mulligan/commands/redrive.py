"""`mulligan redrive [RUN]`: wake parked runs."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import EventUnreadable, InvalidInput
from mulligan.projections.projector import Projector
from mulligan.projections.rows import SUMMARIES, read_rows
from mulligan.replies import Redriven


@click.command()
@click.argument("run", required=False)
@json_option
def redrive(run: str | None, as_json: bool) -> None:
    """
    Let what is parked go on: in one run, or in every run that is paused. Parked is what lost its
    worker again and again, or found no worker with its code.
    """
    with Client() as client:
        if run is not None:
            client.redrive(run)
            runs = [run]
        else:
            runs = [one for one in _paused(client) if _redriven(client, one)]
    if as_json:
        show_json(Redriven(runs=runs))
    else:
        click.echo(f"redriven: {', '.join(runs)}" if runs else "nothing was parked", err=True)


def _paused(client: Client) -> list[str]:
    Projector(client.store).catch_up()
    rows = read_rows(client.store, SUMMARIES)
    return sorted(row.run for row in rows if row.status == "paused")


def _redriven(client: Client, run: str) -> bool:
    try:
        client.redrive(run)
    except InvalidInput:
        return False
    except EventUnreadable as error:  # for a newer version to redrive; others are not held up
        click.echo(f"skipped: {error}", err=True)
        return False
    return True
