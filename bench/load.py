"""
What many runs and many workers cost: `make soak`, or `python bench/load.py [PART …]`.

Each part starts a private Valkey with an append-only file, works on it, checks that nothing was
lost or done twice, and prints one line. Absolute times depend on the machine and on what else runs
there; counts and ratios are what they are for. It exits with 1 if a check failed.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.errors import AppendRefused, StoreUnavailable
from mulligan.events import facts
from mulligan.events.store import Append, Appended
from mulligan.projections.history import problems
from mulligan.projections.projector import STORED, Projector
from mulligan.schemas.plan import Plan
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess

RUNS, PARTS = 1_000, 8
PROCESSES = 4
KILLS = 8
HOT_NODES = 500
HOPS = 200
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


def many() -> bool:
    """1,000 runs of ten nodes over four processes: all end, each function is called once."""
    with load() as world, world.workers(processes=PROCESSES) as workers:
        workers.until_working(PROCESSES)
        began_s = time.monotonic()
        world.ask(world.flow, RUNS, PARTS)
        asked_s = time.monotonic() - began_s
        took_s = asked_s + world.until_all_ended()
        calls = world.calls()
        wrong = world.wrong()
        if set(calls.values()) != {1} or len(calls) != RUNS * (PARTS + 2):
            wrong.append(f"{len(calls)} functions called {calls.total()} times")
        nodes = RUNS * (PARTS + 2)
        return say(
            "many", wrong, runs=RUNS, nodes=nodes, calls=calls.total(),
            asked_s=round(asked_s, 1), took_s=round(took_s, 1), nodes_per_s=round(nodes / took_s),
        )  # fmt: skip


def killed() -> bool:
    """The same while workers and the server are killed: all end, and no result is forgotten."""
    dice = random.Random(1)
    kills = Counter[str]()
    next_kill_s = time.monotonic()

    with load() as world, world.workers(processes=PROCESSES) as workers:
        workers.until_working(PROCESSES)

        def kill() -> None:
            nonlocal next_kill_s
            if sum(kills.values()) >= KILLS or time.monotonic() < next_kill_s:
                return
            next_kill_s = time.monotonic() + dice.uniform(0.5, 2)
            if sum(kills.values()) % 4 == 3:
                world.server.restart()
                kills["server"] += 1
            elif workers.alive:
                with suppress(ProcessLookupError):
                    os.kill(dice.choice(workers.alive), SIGKILL)
                    kills["workers"] += 1

        world.ask(world.flow, RUNS // 4, PARTS)
        took_s = world.until_all_ended(kill)
        calls, nodes = world.calls(), RUNS // 4 * (PARTS + 2)
        wrong = world.wrong()
        if len(calls) != nodes:
            wrong.append(f"{nodes - len(calls)} functions never ran")
        return say(
            "killed", wrong, runs=RUNS // 4, kills=dict(kills), took_s=round(took_s, 1),
            called_again=calls.total() - nodes,
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


PARTS_BY_NAME = {one.__name__: one for one in (many, killed, hot, hop, death)}


def main() -> None:
    """Run the parts named on the command line, or all."""
    sys.path.append(str(HERE))
    names = sys.argv[1:] or list(PARTS_BY_NAME)
    unknown = [name for name in names if name not in PARTS_BY_NAME]
    if unknown:
        sys.exit(f"no part {unknown[0]!r}; there are {', '.join(PARTS_BY_NAME)}")
    sys.exit(0 if all([PARTS_BY_NAME[name]() for name in names]) else 1)


if __name__ == "__main__":
    main()
