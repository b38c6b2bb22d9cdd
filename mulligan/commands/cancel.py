"""`mulligan cancel RUN`: cancel a run."""

from __future__ import annotations

import click

from mulligan.client import Client


@click.command()
@click.argument("run")
@click.option("--reason", default="", help="Kept in the log.")
def cancel(run: str, reason: str) -> None:
    """Start nothing new in a run, await the tools that run, and end it."""
    with Client() as client:
        if client.cancel(run, reason):
            click.echo(f"{run}: cancelling", err=True)
        else:
            click.echo(f"{run}: has ended, or was asked to before", err=True)
