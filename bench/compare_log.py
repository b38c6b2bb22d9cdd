"""
Rows of `bench/compare.py` about a log that is there: rebuilding rows, verifying, loading a long
run, memory, and how late a follower is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from compare_size import CHAINS, Size
from compare_table import OURS, Figures, percentile
from contender import Contender
from load_scale import tailing
from memory import EVENTS, fill, history

from mulligan.events.redis_store import RedisEventStore
from mulligan.projections.projector import Projector
from mulligan.projections.rows import STORED, SUMMARIES
from mulligan.testing.server import ValkeyServer

EVENT_BYTES = 300
ROUNDS, LOADS = 3, 7
"""Whatever the size: one round of a short log says little, many of a full one take long."""

REPLAYED = 100_000
"""Events in the library that ours is compared with, which writes them slowly."""

LOOKED_AT = 5_000
"""Runs that are verified, and whose events are decoded alone."""

REBUILD, VERIFY, LOAD = "rebuild of all runs' rows", "mulligan verify", "load of a long run"
LISTS = f"{OURS}, one projection"
"""What lists show: as much as others fold, who have one state of each run."""

XRANGE, DECODING = "XRANGE through hiredis", "decoding alone (msgspec)"
XRANGE_PIPED = f"{XRANGE}, pipelined"
REPLAY_LOG, REPLAY = "eventsourcing, its log decoded", "eventsourcing, aggregates"
EVENTS_A_STEP, EVENTS_BESIDE = 3, 3
"""A node's, and a run's own."""

MEMORY = f"memory of an event of {EVENT_BYTES} bytes"
TAIL_50, TAIL_99 = "mulligan tail under load, p50", "mulligan tail under load, p99"
MICROSECONDS = "µs an event"


def reads(found: Figures, size: Size, peers: Path) -> None:
    """Microseconds an event of a full log, and its memory."""
    with TemporaryDirectory() as name, ValkeyServer() as server:
        folder = Path(name)
        _fill(found, server, size)
        with (
            Contender(
                Path(sys.executable), "ours_log", [server.url, name], log=folder / "ours.log"
            ) as ours,
            Contender(peers, "eventsourcing_replay", [], log=folder / "theirs.log") as theirs,
        ):
            theirs.measure("fill", events=min(size.events, REPLAYED))
            for _ in range(ROUNDS):
                _replays(found, size, ours, theirs)
            _long_run(found, size, ours)


def _fill(found: Figures, server: ValkeyServer, size: Size) -> None:
    store = RedisEventStore(server.url)
    store.partitions()
    with server.client() as client:
        empty = _used(client)
        _, payload = fill(client, size.events // EVENTS, history(EVENT_BYTES))
        Projector(store).catch_up()
        found.keep(MEMORY, OURS, "bytes", (_used(client) - empty) / size.events)
        found.keep(MEMORY, "the event itself", "bytes", payload / size.events)
    store.close()


def _used(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def _replays(found: Figures, size: Size, ours: Contender, theirs: Contender) -> None:
    runs = min(LOOKED_AT, size.events // EVENTS)
    for contender, kinds in ((OURS, STORED), (LISTS, [SUMMARIES])):
        (took_s,) = ours.measure("rebuild", projections=[rows.name for rows in kinds])
        found.keep(REBUILD, contender, MICROSECONDS, 1e6 * took_s / size.events)
    for contender, measured in (
        (XRANGE, ours.measure("xrange")),
        (XRANGE_PIPED, ours.measure("xrange_piped")),
        (DECODING, ours.measure("decoding", runs=runs)),
        (REPLAY_LOG, theirs.measure("log")),
        (REPLAY, theirs.measure("aggregates")),
    ):
        _each(found, REBUILD, contender, measured)
    _each(found, VERIFY, OURS, ours.measure("verify", runs=runs))


def _each(found: Figures, row: str, contender: str, measured: list[float]) -> None:
    took_s, count = measured
    found.keep(row, contender, MICROSECONDS, 1e6 * took_s / count)


def _long_run(found: Figures, size: Size, ours: Contender) -> None:
    (version,) = ours.measure("work_long", events=size.long_run)
    ours.measure("load", snapshot=True)  # the first digests the code that folds, once a process
    row = f"{LOAD}, {version:,.0f} events"
    for contender, snapshot in ((f"{OURS}, its snapshot", True), (f"{OURS}, its events", False)):
        for _ in range(LOADS):
            (took_s,) = ours.measure("load", snapshot=snapshot)
            found.keep(row, contender, "ms", 1e3 * took_s)


def tails(found: Figures, size: Size, peers: Path) -> None:
    """Milliseconds from an append to its line, while workers append as fast as they can."""
    del peers
    with TemporaryDirectory() as name, ValkeyServer(appendonly="yes") as server:
        folder = Path(name)
        arguments = [server.url, name]
        with (
            Contender(Path(sys.executable), "ours", arguments, log=folder / "ours.log") as ours,
            tailing(SimpleNamespace(server=server)) as late,
        ):
            ours.measure("chain", steps=1, chains=1)
            late.get(timeout=30)
            for _ in range(size.rounds):
                while not late.empty():
                    late.get()
                ours.measure("chain", steps=size.steps_of_many, chains=CHAINS)
                count = CHAINS * (EVENTS_A_STEP * size.steps_of_many + EVENTS_BESIDE)
                waits = [late.get(timeout=30) for _ in range(count)]
                for row, share in ((TAIL_50, 0.5), (TAIL_99, 0.99)):
                    found.keep(row, OURS, "ms", percentile(waits, share))
