"""`mulligan projector`: keep the rows that lists show."""

from __future__ import annotations

import threading
import time

import click

from mulligan.actors.end_signals import end_signals
from mulligan.client import Client
from mulligan.errors import StoreUnavailable
from mulligan.events.crash_points import arm
from mulligan.projections.projector import Projector

WAIT_MS = 500
AGAIN_S = 0.5


@click.command()
@click.option("--once", is_flag=True, help="Catch up and end.")
def projector(once: bool) -> None:
    """Follow all runs and keep a row of each; any number of projectors may run."""
    with Client() as client:
        arm(client.settings.crash_at, client.settings.crash_ask)
        following = Projector(
            client.store, lambda sentence: click.echo(sentence, err=True), time.monotonic
        )
        if once:
            click.echo(f"{following.catch_up()} feed entries taken in", err=True)
            return
        ended = threading.Event()
        with end_signals(ended.set):
            click.echo("projector: following", err=True)
            _follow(following, ended)


def _follow(following: Projector, ended: threading.Event) -> None:
    """Catch up until the end, whatever becomes of the server meanwhile."""
    away = False
    while not ended.is_set():
        try:
            following.catch_up(WAIT_MS)
        except StoreUnavailable as error:
            if not away:
                click.echo(f"projector: {error}; it goes on when the server is back", err=True)
            away = True
            ended.wait(AGAIN_S)
        else:
            if away:
                click.echo("projector: following again", err=True)
            away = False
