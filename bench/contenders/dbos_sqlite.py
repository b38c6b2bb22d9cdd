"""DBOS on SQLite: a workflow that calls a step after the other."""

from __future__ import annotations

import sys
from time import perf_counter

from dbos import DBOS, DBOSConfig
from serving import serve
from sqlalchemy import event
from sqlalchemy.engine import Engine


@DBOS.step()
def step(value: int) -> int:
    """What is measured does nothing."""
    return value


@DBOS.workflow()
def work(steps: int) -> int:
    """A chain."""
    value = 1
    for _ in range(steps):
        value = step(value)
    return value


def chain(steps: int, chains: int) -> list[float]:
    """From the first start to the end of all."""
    began_s = perf_counter()
    started = [DBOS.start_workflow(work, steps) for _ in range(chains)]
    for one in started:
        one.get_result(polling_interval_sec=0.01)
    return [perf_counter() - began_s]


def main() -> None:
    """`dbos_sqlite.py FILE SYNCHRONOUS`"""
    path, synchronous = sys.argv[1:]

    @event.listens_for(Engine, "connect")
    def set_up(connection: object, _: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA synchronous={synchronous}")  # type: ignore[attr-defined]

    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{path}",
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    serve({"chain": chain})
    DBOS.destroy()


if __name__ == "__main__":
    main()
