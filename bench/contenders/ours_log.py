"""
What mulligan does with a log that is there, and the floors under it: reading it, and decoding it.
"""

from __future__ import annotations

import gc
import sys
import time
from itertools import islice
from pathlib import Path
from time import perf_counter

from serving import serve

from mulligan.actors.assemble import assemble
from mulligan.actors.cache import Fold
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.events.codec import decode
from mulligan.events.keys import Keys
from mulligan.events.redis_store import RedisEventStore
from mulligan.projections.projector import Projector
from mulligan.projections.rows import STORED
from mulligan.projections.verify import problems_of
from mulligan.settings import Settings
from mulligan.wire import Wire
from mulligan.wire_address import address_of

WAIT_S = 300.0
KEYS = Keys(0)


class Log:
    """A store, and a connection of its own beside it."""

    def __init__(self, url: str, folder: Path) -> None:
        self._settings = Settings(redis_url=url, data_dir=folder)
        self._store = RedisEventStore(url)
        address = address_of(url)
        assert address is not None
        self._wire = Wire(address, connect_timeout_s=5, answer_timeout_s=30)
        self._long = ""

    def rebuild(self, projections: list[str]) -> list[float]:
        """All runs' rows of some projections, folded anew and written."""
        kinds = [rows for rows in STORED if rows.name in projections]
        began_s = perf_counter()
        assert Projector(self._store).rebuild(kinds, 0) == kinds
        return [perf_counter() - began_s]

    def xrange(self) -> list[float]:
        """All runs' events as they come from the server, through hiredis; and how many."""
        runs, count = [run for run, _ in self._store.runs()], 0
        began_s = perf_counter()
        for run in runs:
            count += len(self._wire.call("XRANGE", KEYS.run(run), "-", "+"))
        return [perf_counter() - began_s, count]

    def xrange_piped(self) -> list[float]:
        """As `xrange`, where the server reads the next runs meanwhile; and how many."""
        runs, count = [run for run, _ in self._store.runs()], 0
        began_s = perf_counter()
        for events in self._wire.calls(("XRANGE", KEYS.run(run), "-", "+") for run in runs):
            count += len(events)
        return [perf_counter() - began_s, count]

    def decoding(self, runs: int) -> list[float]:
        """The events of some runs, bytes before and structs after; and how many."""
        raw = [
            (run, *one) for run, _ in islice(self._store.runs(), runs) for one in self._stored(run)
        ]
        began_s = perf_counter()
        for run, version, time_ms, data in raw:
            decode(run, version, time_ms, data)
        return [perf_counter() - began_s, len(raw)]

    def _stored(self, run: str) -> list[tuple[int, int, bytes]]:
        stored = self._store.stored(run)
        return [(version, one.time_ms, one.raw) for version, one in enumerate(stored, 1)]

    def verify(self, runs: int) -> list[float]:
        """As `mulligan verify` does, of some runs; and how many events they have."""
        names, count = [run for run, _ in islice(self._store.runs(), runs)], 0
        began_s = perf_counter()
        for run in names:
            events = self._store.read(run)
            count += len(events)
            assert not problems_of(self._store, run, events)
        return [perf_counter() - began_s, count]

    def work_long(self, events: int) -> list[float]:
        """A run of so many events, worked by threads; how many it has."""
        runtime = assemble(self._settings)
        with Client(self._settings) as client, working(runtime, threads=8, drain_s=5):
            flow = str(Path(__file__).parent / "wide.yaml")
            self._long = client.enqueue(flow, events // 3, run_id="long")
            client.wait(self._long, timeout_s=WAIT_S)
        runtime.close()
        row = self._store.row(self._long)
        assert row is not None
        return [row.version]

    def load(self, *, snapshot: bool) -> list[float]:
        """The long run's state in a process that does not know it, as a worker makes it."""
        row = self._store.row(self._long)
        assert row is not None
        if not snapshot:
            self._wire.call("DEL", KEYS.snapshot(self._long))
        gc.collect()  # what other measurements have left: one of all objects takes 15 ms and more
        began_s = time.perf_counter()
        fold = Fold(self._long, self._store)
        fold.reach(row.version)
        took_s = time.perf_counter() - began_s
        assert fold.branch().version == row.version
        return [took_s]


def main() -> None:
    """`ours_log.py URL FOLDER`"""
    log = Log(sys.argv[1], Path(sys.argv[2]))
    floors = {"xrange": log.xrange, "xrange_piped": log.xrange_piped, "decoding": log.decoding}
    reads = {"rebuild": log.rebuild, "verify": log.verify}
    serve({**floors, **reads, "work_long": log.work_long, "load": log.load})


if __name__ == "__main__":
    main()
