"""`mulligan recovery RUN`: the allowances of a run, and what is left of them."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json, table
from mulligan.projections.recovery import view


@click.command()
@click.argument("run")
@json_option
def recovery(run: str, as_json: bool) -> None:
    """Show each invocation's allowance: its phase, what it used, and the cause that ended it."""
    with Client() as client:
        shown = view(client.status(run))
    if as_json:
        show_json(shown)
        return
    rows = [
        (
            one.invocation_id,
            one.phase,
            f"{one.used} of {one.limit}",
            str(one.requests),
            one.cause.told if one.cause else "",
        )
        for one in shown.invocations
    ]
    table(("invocation", "phase", "used", "requests", "cause"), rows)
    if shown.reason in ("exhausted", "parked"):
        click.echo(f"`mulligan resume {run}` lets it go on with a fresh allowance", err=True)
