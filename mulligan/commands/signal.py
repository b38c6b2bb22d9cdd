"""`mulligan signal RUN NAME`: tell a run of something that it waits for."""

from __future__ import annotations

import secrets

import click

from mulligan.client import Client
from mulligan.commands.given_input import read_input
from mulligan.commands.printing import json_option, show_json
from mulligan.commands.whoami import by_option
from mulligan.replies import Signalled


@click.command()
@click.argument("run")
@click.argument("name")
@click.option("--data", metavar="FILE|JSON", help="What it tells: JSON, or a file of it; or null.")
@click.option("--key", help="Sent again with the same key, it is the same signal.")
@by_option
@json_option
def signal(run: str, name: str, data: str | None, key: str | None, by: str, as_json: bool) -> None:
    """
    Send RUN the signal NAME: a node that waits for it ends with its data, now or once it comes to
    wait. `mulligan status RUN` shows what is waited for.
    """
    value = read_input(data, "--data")
    key = key if key is not None else secrets.token_hex(8)
    with Client() as client:
        changed = client.signal(run, name, value, key=key, by=by)
    if as_json:
        show_json(Signalled(run=run, name=name, key=key, changed=changed))
    else:
        told = "received" if changed else "was received before"
        click.echo(f"{run}: signal {name} ({key}) {told}", err=True)
