"""`mulligan workspace RUN`: the artifacts of a run as files."""

from __future__ import annotations

from pathlib import Path

import click

from mulligan.client import Client
from mulligan.workspace import workspace_of, write_workspace


@click.command()
@click.argument("run")
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER")
def workspace(run: str, folder: Path | None) -> None:
    """
    Write the drafts, reports and logs of a run's repair loops to FOLDER, or where `mulligan run`
    writes them, and print that folder. They come from the log: any host can write them, again.
    """
    with Client() as client:
        into = folder if folder is not None else workspace_of(client, run)
        if not write_workspace(client, run, into):
            click.echo(f"{run}: no node of this run has judged a draft", err=True)
            return
    click.echo(into)
