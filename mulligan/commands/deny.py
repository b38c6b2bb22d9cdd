"""`mulligan deny RUN CALL`: refuse a call that waits for approval."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.approve import show
from mulligan.commands.printing import json_option
from mulligan.commands.whoami import by_option
from mulligan.replies import Decided


@click.command()
@click.argument("run")
@click.argument("call")
@click.option("--reason", default="", help="Told to the agent.")
@by_option
@json_option
def deny(run: str, call: str, reason: str, by: str, as_json: bool) -> None:
    """Refuse CALL of RUN: it is never started, its agent is told so, and goes on."""
    with Client() as client:
        changed = client.deny(run, call, reason, by=by)
    show(Decided(run=run, call=call, decision="denied", changed=changed), as_json)
