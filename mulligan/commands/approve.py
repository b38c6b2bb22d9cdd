"""`mulligan approve RUN CALL`: let a call be run that waits for it."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.commands.whoami import by_option
from mulligan.replies import Decided


@click.command()
@click.argument("run")
@click.argument("call")
@by_option
@json_option
def approve(run: str, call: str, by: str, as_json: bool) -> None:
    """Let CALL of RUN be run, once. `mulligan status RUN` shows what it would do."""
    with Client() as client:
        changed = client.approve(run, call, by=by)
    show(Decided(run=run, call=call, decision="approved", changed=changed), as_json)


def show(decided: Decided, as_json: bool) -> None:
    """Print a decision."""
    if as_json:
        show_json(decided)
        return
    before = "" if decided.changed else " before"
    click.echo(f"{decided.run}: {decided.call} {decided.decision}{before}", err=True)
