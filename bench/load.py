"""
What many runs and many workers cost: `make soak`, or `python bench/load.py [PART …] [--size RUNS]`.

Each part starts a private Valkey with an append-only file, works on it, checks that nothing was
lost or done twice, and prints one line. Absolute times depend on the machine and on what else runs
there; counts and ratios are what they are for. It exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from signal import SIGKILL
from typing import Any

from load_scale import due, stored, tail
from load_world import HERE, Load, load, say

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.errors import AppendRefused
from mulligan.events import facts
from mulligan.events.store import Append, Appended

PARTS = 8
PROCESSES = 4
KILLS = 8
HOT_NODES = 500
HOPS = 200


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


def killed(size: int) -> bool:
    """
    The same while workers, the projector and the server are killed: all end, and no result is
    forgotten.
    """
    with load() as world, world.workers(processes=PROCESSES) as workers:
        workers.until_working(PROCESSES)
        killer = Killer(world, workers)
        world.ask(world.flow, size, PARTS)
        took_s = world.until_all_ended(killer.kill)
        killer.end()
        calls, nodes = world.calls(), size * (PARTS + 2)
        wrong = world.wrong()
        if len(calls) != nodes:
            wrong.append(f"{nodes - len(calls)} functions never ran")
        return say(
            "killed", wrong, runs=size, kills=dict(killer.kills), took_s=round(took_s, 1),
            called_again=calls.total() - nodes,
        )  # fmt: skip


class Killer:
    """Kills a worker, the projector or the server now and then; what it killed comes back."""

    def __init__(self, world: Load, workers: Any) -> None:
        self.kills = Counter[str]()
        self._world = world
        self._workers = workers
        self._dice = random.Random(1)
        self._next_s = time.monotonic()
        self._projector = self._start_projector()

    def kill(self) -> None:
        """One more kill, if it is time for one."""
        if self.kills.total() >= KILLS or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self._dice.uniform(0.5, 2)
        match self.kills.total() % 4:
            case 3:
                self._world.server.restart()
                self.kills["server"] += 1
            case 1:
                self.end()
                self._projector = self._start_projector()
                self.kills["projector"] += 1
            case _ if self._workers.alive:
                with suppress(ProcessLookupError):
                    os.kill(self._dice.choice(self._workers.alive), SIGKILL)
                    self.kills["workers"] += 1

    def end(self) -> None:
        """The projector's end, too, is a kill."""
        self._projector.kill()
        self._projector.wait()

    def _start_projector(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "mulligan.cli", "projector"],
            env={**os.environ, "MULLIGAN_REDIS_URL": self._world.server.url},
            stderr=subprocess.DEVNULL,
        )


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
    return say("hop", [], runs=HOPS, p50_ms=waits[HOPS // 2], p99_ms=waits[HOPS * 99 // 100])


def death() -> bool:
    """From the start of what kills a worker (`kill -9`) to its next start, beyond the lease."""
    lease_ms, beyond = 3_000, []
    for _ in range(3):
        with (
            load() as world,
            world.workers(processes=1, lease_ms=lease_ms, crash_at="function.before:kill"),
        ):
            (run,) = world.ask(world.one, 1, 1)
            world.client.wait(run, timeout_s=60)
            starts = [
                event.time_ms
                for event in world.client.events(run)
                if isinstance(event.data, facts.NodeStarted)
            ]
            beyond.append(starts[-1] - starts[0] - lease_ms)
    wrong = [] if max(beyond) <= 1_000 else ["too late"]
    return say("death", wrong, lease_ms=lease_ms, start_to_restart_minus_lease_ms=beyond)


SIZES: dict[Callable[..., bool], int] = {many: 1_000, killed: 250, stored: 100_000, due: 100_000}
"""How many runs a part has unless `--size` says otherwise; the others have a size of their own."""

PARTS_BY_NAME: dict[str, Callable[..., bool]] = {
    "many": many,
    "killed": killed,
    "hot": hot,
    "hop": hop,
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
