"""`mulligan reconcile RUN CALL OUTCOME`: say what became of an unknown effect."""

from __future__ import annotations

import click

from mulligan.client import Client, Outcome
from mulligan.commands.given_input import read_input
from mulligan.commands.whoami import by_option


@click.command()
@click.argument("run")
@click.argument("call")
@click.argument("outcome", type=click.Choice(["succeeded", "failed", "retry"]))
@click.option("--result", metavar="FILE|JSON", help="With succeeded: what the tool returned.")
@by_option
def reconcile(run: str, call: str, outcome: Outcome, result: str | None, by: str) -> None:
    """
    Say what became of a CALL whose outcome is unknown (of a function node: the node's id): it
    succeeded, it failed, or it shall be tried again.
    """
    value = read_input(result, "--result")
    with Client() as client:
        client.reconcile(run, call, outcome, by=by, result=value)
    click.echo(f"{run}: {call} reconciled as {outcome}", err=True)
