"""
What many runs and many workers cost: `make soak`, or `python bench/load.py [PART …] [--size RUNS]`.

Each part starts a private Valkey with an append-only file, works on it, checks that nothing was
lost or done twice, and prints one line. Absolute times depend on the machine and on what else runs
there; counts and ratios are what they are for. It exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from load_kills import death, killed
from load_scale import due, stored, tail
from load_watched import watched
from load_world import HERE, Load, load, say

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.errors import AppendRefused
from mulligan.events import facts
from mulligan.events.store import Append, Appended

PARTS = 8
PROCESSES = 4
HOT_NODES = 500
HOPS = 200
HOP_BOUNDS_MS = (3, 25)
"""In the median and at the 99th percentile."""

IDLE_THREADS = 32
IDLE_SETTLE_S, IDLE_S = 3.0, 30.0
IDLE_BOUND = 0.005
HOT_RATIO = 1.5


def many(size: int) -> bool:
    """Runs of ten nodes over four processes: all end, each function is called once."""
    with load() as world, world.workers(processes=PROCESSES) as workers:
        workers.until_working(PROCESSES)
        began_s = time.monotonic()
        world.ask(world.flow, size, PARTS)
        asked_s = time.monotonic() - began_s
        took_s = asked_s + world.until_all_ended()
        calls = world.calls()
        wrong = world.wrong()
        if set(calls.values()) != {1} or len(calls) != size * (PARTS + 2):
            wrong.append(f"{len(calls)} functions called {calls.total()} times")
        nodes = size * (PARTS + 2)
        return say(
            "many", wrong, runs=size, nodes=nodes, calls=calls.total(),
            asked_s=round(asked_s, 1), took_s=round(took_s, 1), nodes_per_s=round(nodes / took_s),
        )  # fmt: skip


class Counted:
    """A log that counts how often an append is refused because something else came first."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.appends = self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Append) -> Appended:
        self.appends += 1
        try:
            appended: Appended = self._store.append(append)
        except AppendRefused:
            self.refused += 1
            raise
        return appended


def hot() -> bool:
    """One run with 500 parallel nodes, beside 500 runs with one: refused appends, and the ratio."""
    spread_s, _ = _worked(lambda world: world.ask(world.one, HOT_NODES, 1))
    hot_s, counted = _worked(lambda world: world.ask(world.flow, 1, HOT_NODES))
    share = counted.refused / counted.appends
    wrong = [] if share < 0.05 else ["more than 5 % of the appends were tried again"]
    if hot_s > HOT_RATIO * spread_s:
        wrong.append("one hot run took too long beside many")
    return say(
        "hot", wrong, nodes=HOT_NODES, appends=counted.appends, tried_again=f"{share:.2%}",
        hot_s=round(hot_s, 1), spread_s=round(spread_s, 1), ratio=round(hot_s / spread_s, 2),
    )  # fmt: skip


def _worked(ask: Callable[[Load], object]) -> tuple[float, Counted]:
    """Seconds until all ended in one process of 32 threads, and its log."""
    with load() as world:
        runtime = assemble(world.settings)
        counted = Counted(runtime.store)
        runtime.store = counted
        ask(world)
        with working(runtime, drain_s=5):
            took_s = world.until_all_ended()
        runtime.close()
        return took_s, counted


def hop() -> bool:
    """From a run's request to its start, by the server's clock, with nothing else to do."""
    waits = []
    with load() as world, world.workers(processes=1) as workers:
        workers.until_working()
        for number in range(HOPS):
            (run,) = world.ask(world.one, 1, 1, name=f"hop{number}-")
            world.client.wait(run, timeout_s=30)
            times = {type(event.data): event.time_ms for event in world.client.events(run)}
            waits.append(times[facts.RunStarted] - times[facts.RunRequested])
    waits.sort()
    p50_ms, p99_ms = waits[HOPS // 2], waits[HOPS * 99 // 100]
    wrong = [] if (p50_ms, p99_ms) <= HOP_BOUNDS_MS and p99_ms <= HOP_BOUNDS_MS[1] else ["too late"]
    return say("hop", wrong, runs=HOPS, p50_ms=p50_ms, p99_ms=p99_ms)


def idle() -> bool:
    """What a worker process of 32 threads takes of a core while there is nothing to do."""
    with load() as world, world.workers(processes=1, threads=IDLE_THREADS) as workers:
        workers.until_working()
        (run,) = world.ask(world.one, 1, 1)
        world.client.wait(run, timeout_s=30)
        time.sleep(IDLE_SETTLE_S)
        (pid,) = workers.alive
        with world.server.client() as client:
            commands = -client.info("stats")["total_commands_processed"]
            before_s = _core_s(pid)
            time.sleep(IDLE_S)
            share = (_core_s(pid) - before_s) / IDLE_S
            commands += client.info("stats")["total_commands_processed"]
    wrong = [] if share <= IDLE_BOUND else ["an idle worker costs too much"]
    return say(
        "idle", wrong, of_a_core=f"{share:.2%}", commands_per_s=round(commands / IDLE_S),
    )  # fmt: skip


def _core_s(pid: int) -> float:
    """Processor seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SIZES: dict[Callable[..., bool], int] = {
    many: 1_000,
    watched: 1_000,
    killed: 1_000,
    stored: 100_000,
    due: 100_000,
}
"""How many runs a part has unless `--size` says otherwise; the others have a size of their own."""

PARTS_BY_NAME: dict[str, Callable[..., bool]] = {
    "many": many,
    "watched": watched,
    "killed": killed,
    "hot": hot,
    "hop": hop,
    "idle": idle,
    "death": death,
    "tail": tail,
    "stored": stored,
    "due": due,
}


def _run(part: Callable[..., bool], size: int | None) -> bool:
    return part(size or SIZES[part]) if part in SIZES else part()


def main() -> None:
    """Run the parts named on the command line, or all."""
    parser = argparse.ArgumentParser(description="What many runs and many workers cost.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS_BY_NAME, []], metavar="PART")
    parser.add_argument("--size", type=int, help="runs of a part; default: its own")
    given = parser.parse_args()
    sys.path.append(str(HERE))
    chosen = [PARTS_BY_NAME[name] for name in given.parts or PARTS_BY_NAME]
    sys.exit(0 if all([_run(one, given.size) for one in chosen]) else 1)


if __name__ == "__main__":
    main()
