"""`mulligan decide RUN accept|abort|take-over`: what a repair loop could not decide."""

from __future__ import annotations

import click

from mulligan.client import Client, Decision
from mulligan.commands.given_draft import read_draft
from mulligan.commands.whoami import by_option
from mulligan.errors import InvalidInput

_DECISIONS: dict[str, Decision] = {"accept": "accept", "abort": "abort", "take-over": "take_over"}


@click.command()
@click.argument("run")
@click.argument("decision", type=click.Choice(list(_DECISIONS)))
@click.option("--draft", metavar="FILE", help="With take-over: your draft, text or .json.")
@click.option("--node", metavar="NODE", help="The node that asks, where several do.")
@by_option
def decide(run: str, decision: str, draft: str | None, node: str | None, by: str) -> None:
    """
    Decide on a draft that repair could not bring through its gates: accept the best one as it is,
    abort, or take over with a draft of your own, which the gates judge like any other.
    """
    if (decision == "take-over") != (draft is not None):
        raise InvalidInput("take-over needs --draft FILE, and only take-over takes one")
    given = read_draft(draft) if draft is not None else None
    with Client() as client:
        client.decide(run, _DECISIONS[decision], draft=given, node=node, by=by)
    click.echo(f"{run}: {decision}", err=True)
