"""`mulligan worker [APP]`: work runs until told to stop."""

from __future__ import annotations

import sys

import click

from mulligan.actors.process import DEFAULT_THREADS, DRAIN_S, Orders
from mulligan.actors.supervisor import Supervisor
from mulligan.logs import configure_logs
from mulligan.settings import load_settings

FACTORY = "mulligan.actors.assemble:assemble"


@click.command()
@click.argument("app", required=False)
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=DEFAULT_THREADS, show_default=True)
@click.option("--queues", multiple=True, help="Only these Dramatiq queues; may be given again.")
@click.option(
    "--drain",
    "drain_s",
    type=click.FloatRange(min=0),
    default=DRAIN_S,
    show_default=True,
    help="Seconds that what runs may still take after SIGTERM or Ctrl-C.",
)
def worker(
    app: str | None, processes: int, threads: int, queues: tuple[str, ...], drain_s: float
) -> None:
    """
    Work runs in processes that are watched and replaced. APP (module:attribute) is imported in
    each, with the workflows and tools it registers. SIGTERM drains.
    """
    settings = load_settings()
    configure_logs(settings.log_level)
    orders = Orders(
        factory=FACTORY, app=app, threads=threads, queues=queues or None, drain_s=drain_s
    )
    sys.exit(Supervisor(settings, orders, processes=processes).run())
