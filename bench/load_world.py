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
from mulligan.projections.projector import Projector
from mulligan.projections.rows import STORED
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
WRITING = f"""{FLOW}
  - {{id: publish, kind: function, call: "load_steps:publish", effect: write, needs: [join]}}
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
        self.flow, self.one, self.writing = (
            self._plan(folder, text) for text in (FLOW, ONE, WRITING)
        )

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
            folder=HERE,
            environment={
                "LOAD_CALLS": str(self.calls_in),
                "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
                "MULLIGAN_LOG_LEVEL": "info",
            },
            **{"threads": 8, **more},
        )

    def until_all_ended(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """The seconds until all have ended, or wait for a person."""
        began_s = time.monotonic()
        while self._going():
            if time.monotonic() - began_s > BOUND_S:
                sys.exit(f"not all runs have ended after {BOUND_S} s")
            meanwhile()
            time.sleep(0.2)
        return time.monotonic() - began_s

    def _going(self) -> bool:
        try:
            return any(not self._waits(run) for run in self._open())
        except StoreUnavailable:
            return True

    def _open(self) -> list[str]:
        return [run for run, row in self.client.store.runs() if row.phase != "closed"]

    def _waits(self, run: str) -> bool:
        return self.client.status(run).reason == "reconciliation_required"

    def waiting(self) -> list[str]:
        """The runs that wait for a person to say what became of a write."""
        return [run for run in self._open() if self._waits(run)]

    def calls(self) -> Counter[str]:
        """How often each function was called, by its node's key."""
        return Counter(key for key, _ in self._called())

    def last_calls_ms(self) -> dict[str, int]:
        """When each was called last, by this machine's clock."""
        return {key: ms for key, ms in sorted(self._called(), key=lambda call: call[1])}

    def _called(self) -> list[tuple[str, int]]:
        lines = [line for file in self.calls_in.iterdir() for line in file.read_text().splitlines()]
        return [(key, int(ms)) for key, _, ms in (line.rpartition(" ") for line in lines)]

    def wrong(self) -> list[str]:
        """What the histories and the rebuilt rows show that should not be."""
        store = self.client.store
        found = [str(problem) for run, _ in store.runs() for problem in problems(store.read(run))]
        Projector(store).catch_up()
        live = {rows.name: store.rows(rows.name, 0) for rows in STORED}
        Projector(store).rebuild(STORED, 0)
        for rows in STORED:
            if store.rows(rows.name, 0) != live[rows.name]:
                found.append(f"the rebuilt rows of {rows.name} differ from the live ones")
        return found


@contextmanager
def load(*, appendfsync: str = "everysec") -> Iterator[Load]:
    """A fresh one."""
    with (
        ValkeyServer(appendonly="yes", appendfsync=appendfsync) as server,
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
