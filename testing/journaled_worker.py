"""
`mulligan worker`, whose processes note in a journal what they claim and what is acknowledged.

    TEST_JOURNAL=FILE python -m mulligan.testing.journaled_worker [APP] --processes 2 --threads 8

`mulligan.testing.worker.WorkerProcess` starts it where it is given a journal.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from mulligan.actors.assemble import assemble
from mulligan.actors.process import Orders
from mulligan.actors.runtime import Runtime
from mulligan.actors.supervisor import Supervisor
from mulligan.logs import configure_logs
from mulligan.settings import Settings, load_settings
from mulligan.testing.journal import Journal, journaled

FACTORY = "mulligan.testing.journaled_worker:assemble_journaled"


def assemble_journaled(settings: Settings, app: str | None = None) -> Runtime:
    """The runtime of a worker process, on a log whose acknowledgements are noted."""
    journal = Journal(Path(os.environ["TEST_JOURNAL"]))
    return assemble(settings, app, around=lambda store: journaled(store, journal))


@click.command()
@click.argument("app", required=False)
@click.option("--processes", type=int, default=1)
@click.option("--threads", type=int, default=8)
@click.option("--drain", "drain_s", type=float, default=5.0)
def main(app: str | None, processes: int, threads: int, drain_s: float) -> None:
    """Work runs in processes that are watched and replaced, and keep a journal."""
    settings = load_settings()
    configure_logs(settings.log_level)
    orders = Orders(factory=FACTORY, app=app, threads=threads, drain_s=drain_s)
    sys.exit(Supervisor(settings, orders, processes=processes).run())


if __name__ == "__main__":
    main()
