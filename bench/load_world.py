"""
The world of a load: a private Valkey with an append-only file, a client of it, and the calls that
functions have made.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulligan.client import Client
from mulligan.errors import StoreUnavailable
from mulligan.projections.history import problems
from mulligan.projections.projector import STORED, Projector
from mulligan.schemas.plan import Plan
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess

BOUND_S = 600.0
HERE = Path(__file__).parent

FLOW = """
name: load
nodes:
  - {id: split, kind: function, call: "load_steps:split"}
  - {id: part, kind: function, call: "load_steps:part", needs: [split], for_each: split.items}
  - {id: join, kind: function, call: "load_steps:join", needs: [part]}
"""
ONE = """
name: one
nodes:
  - {id: split, kind: function, call: "load_steps:split"}
"""


class Load:
    """A server, a client of it, and the calls that functions have made."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        self.server = server
        self.calls_in = folder / "calls"
        self.calls_in.mkdir()
        os.environ["LOAD_CALLS"] = str(self.calls_in)
        self.settings = Settings(redis_url=server.url)
        self.client = Client(self.settings)
        self.flow, self.one = (self._plan(folder, text) for text in (FLOW, ONE))

    def _plan(self, folder: Path, text: str) -> Plan:
        (folder / "flow.yaml").write_text(text)
        return self.client.plan(str(folder / "flow.yaml"))

    def ask(self, plan: Plan, runs: int, items: int, name: str = "run") -> list[str]:
        return [
            self.client.enqueue(plan, {"items": items}, run_id=f"{name}{number}")
            for number in range(runs)
        ]

    def workers(self, **more: Any) -> WorkerProcess:
        return WorkerProcess(
            self.server.url,
            threads=8,
            folder=HERE,
            environment={
                "LOAD_CALLS": str(self.calls_in),
                "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
                "MULLIGAN_LOG_LEVEL": "info",
            },
            **more,
        )

    def until_all_ended(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """The seconds that took."""
        began_s = time.monotonic()
        while self._going():
            if time.monotonic() - began_s > BOUND_S:
                sys.exit(f"not all runs have ended after {BOUND_S} s")
            meanwhile()
            time.sleep(0.2)
        return time.monotonic() - began_s

    def _going(self) -> bool:
        try:
            return any(row.phase != "closed" for _, row in self.client.store.runs())
        except StoreUnavailable:
            return True

    def calls(self) -> Counter[str]:
        lines = (file.read_text().splitlines() for file in self.calls_in.iterdir())
        return Counter(line for part in lines for line in part)

    def wrong(self) -> list[str]:
        """What the histories and the rebuilt rows show that should not be."""
        store = self.client.store
        found = [
            f"{run}: {problem}" for run, _ in store.runs() for problem in problems(store.read(run))
        ]
        Projector(store).catch_up()
        for rows in STORED:
            live = store.rows(rows.name, 0)
            Projector(store).rebuild(rows, 0)
            if store.rows(rows.name, 0) != live:
                found.append(f"the rebuilt rows of {rows.name} differ from the live ones")
        return found


@contextmanager
def load() -> Iterator[Load]:
    """A fresh one."""
    with (
        ValkeyServer(appendonly="yes", appendfsync="everysec") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        made = Load(server, Path(folder))
        try:
            yield made
        finally:
            made.client.close()


def say(name: str, wrong: list[str], **figures: object) -> bool:
    """Print a part's line; whether all was well."""
    told = "  ".join(f"{key}={value}" for key, value in figures.items())
    print(f"{name:<10} {'ok ' if not wrong else 'BAD'} {told}", flush=True)
    for one in wrong[:5]:
        print(f"           {one}", flush=True)
    return not wrong
