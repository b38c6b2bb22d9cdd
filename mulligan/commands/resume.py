"""`mulligan resume RUN`: let a paused run go on."""

from __future__ import annotations

import click

from mulligan.client import Client


@click.command()
@click.argument("run")
@click.option("--node", help="Only this node; otherwise all that are paused.")
def resume(run: str, node: str | None) -> None:
    """Let paused agents go on with a fresh allowance; completed tools stay completed."""
    with Client() as client:
        client.resume(run, node)
    click.echo(f"{run}: resumed", err=True)
