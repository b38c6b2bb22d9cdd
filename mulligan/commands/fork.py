"""`mulligan fork RUN --at VERSION`: a new run from the first events of another."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.replies import Forked


@click.command()
@click.argument("run")
@click.option("--at", "version", type=int, required=True, help="The last event to copy.")
@click.option("--run-id", help="The same id with the same RUN and version is the same fork.")
@json_option
def fork(run: str, version: int, run_id: str | None, as_json: bool) -> None:
    """
    Begin a new run with what RUN had recorded up to a version, which `mulligan trace` counts. What
    had its result keeps it; what was under way goes on as if its worker had been lost.
    """
    with Client() as client:
        forked = client.fork(run, version, run_id=run_id)
    if as_json:
        show_json(Forked(run=forked, parent=run, at_version=version))
    else:
        click.echo(forked)
