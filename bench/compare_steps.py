"""
Rows of `bench/compare.py` about steps: chains of them, alone and many at once, and hops from one
worker's thread to another.

Each contender is a process of its own that stays ready; in every round each of them does the same
thing in turn, so that what else the machine does hits all alike.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from compare_size import CHAINS, IDLE_S, STEPS, Size
from compare_table import OURS, Figures, percentile
from contender import Contender

from mulligan.testing.server import ValkeyServer

APPEND_FLOOR, XADD_FLOOR = "one lean append", "one bare XADD"
SQLITE_FLOOR = "one bare SQLite insert"
ONE, MANY = "a chain, in place", f"{CHAINS} chains at once"
HOPPING = "a chain, every step by another task"
QUEUEING = "a chain, every step by another task, woken through the queue"
SYNCED = ", synced"
FIRST, BETWEEN = "request to first step, idle", "step to a step of another actor, idle"
P50, P99 = ", p50", ", p99"
MILLISECONDS = "ms"


def steps(found: Figures, size: Size, peers: Path) -> None:
    """Milliseconds a step, of chains and of hops; of chains also with every step on the disk."""
    for synced in (False, True):
        with ExitStack() as stack:
            compared = _Compared(stack, found, peers, synced=synced)
            compared.chains(size, size.synced_rounds if synced else size.rounds)
            if not synced:
                compared.hops(size)


class _Compared:
    """The contenders, ready."""

    def __init__(self, stack: ExitStack, found: Figures, peers: Path, *, synced: bool) -> None:
        self._stack, self._found, self._peers = stack, found, peers
        self._suffix = SYNCED if synced else ""
        self._synchronous = "FULL" if synced else "NORMAL"
        self._folder = Path(stack.enter_context(TemporaryDirectory()))
        server = ValkeyServer(appendonly="yes", appendfsync="always" if synced else "everysec")
        self._url = stack.enter_context(server).url
        self._contenders = self._start()

    def _start(self) -> dict[str, Contender]:
        return {
            XADD_FLOOR: self._ours("redis_floor", self._url, "xadd"),
            APPEND_FLOOR: self._ours("redis_floor", self._url, "append"),
            SQLITE_FLOOR: self._ours("sqlite_floor", self._file("floor"), self._synchronous),
            OURS: self._ours("ours", self._url, str(self._folder)),
            "LangGraph": self._peer("langgraph_sqlite", self._file("langgraph"), self._synchronous),
            "DBOS": self._peer("dbos_sqlite", self._file("dbos"), self._synchronous),
            "Celery": self._peer("celery_chain"),
            "Dramatiq": self._peer("dramatiq_pipeline", self._url.replace("db=0", "db=3")),
        }

    def _ours(self, script: str, *arguments: str) -> Contender:
        return self._contender(Path(sys.executable), script, *arguments)

    def _peer(self, script: str, *arguments: str) -> Contender:
        return self._contender(self._peers, script, *arguments)

    def _contender(self, python: Path, script: str, *arguments: str) -> Contender:
        log = self._folder / f"{script}{'-'.join(arguments[1:2])}.log".replace("/", "")
        # Celery has an address of its own for a unix socket, and its worker reads it anew.
        path = self._url.removeprefix("unix://").partition("?")[0]
        environment = {"BENCH_URL": f"redis+socket://{path}?virtual_host=2"}
        return self._stack.enter_context(
            Contender(python, script, arguments, log=log, environment=environment)
        )

    def _file(self, name: str) -> str:
        return str(self._folder / f"{name}.sqlite")

    # --- Chains ----------------------------------------------------------------------------------

    def chains(self, size: Size, rounds: int) -> None:
        """Alone, in which each step hops, and many at once."""
        for name in self._contenders:
            self._chain(None, name, STEPS, 1)  # warm
        for _ in range(rounds):
            for name in self._contenders:
                self._chain(ONE, name, STEPS, 1)
                self._chain(MANY, name, size.steps_of_many, CHAINS)
            if not self._suffix:
                self._hopping()

    def _chain(self, row: str | None, name: str, steps: int, chains: int) -> None:
        (seconds,) = self._contenders[name].measure("chain", steps=steps, chains=chains)
        if row is not None:
            self._keep(row, name, 1_000 * seconds / (steps * chains))

    def _hopping(self) -> None:
        """Ours where no step can be taken in place, beside Celery and Dramatiq, whose never are."""
        (seconds,) = self._contenders[OURS].measure("hopping", steps=STEPS)
        self._keep(HOPPING, OURS, 1_000 * seconds / STEPS)
        for name in ("LangGraph", "DBOS", "Celery", "Dramatiq"):
            (seconds,) = self._contenders[name].measure("chain", steps=STEPS, chains=1)
            self._keep(HOPPING, name, 1_000 * seconds / STEPS)
            if name in ("Celery", "Dramatiq"):
                self._keep(QUEUEING, name, 1_000 * seconds / STEPS)
        (seconds,) = self._contenders[OURS].measure("queueing", steps=STEPS)
        self._keep(QUEUEING, OURS, 1_000 * seconds / STEPS)

    # --- Hops ------------------------------------------------------------------------------------

    def hops(self, size: Size) -> None:
        """To workers with nothing to do: from a request, and from one step to another's."""
        for row, measure in ((FIRST, "hop"), (BETWEEN, "between")):
            waits: dict[str, list[float]] = {name: [] for name in (OURS, "Celery", "Dramatiq")}
            for _ in range(size.hops):
                time.sleep(IDLE_S)
                for name, so_far in waits.items():
                    so_far += self._contenders[name].measure(measure)
            for suffix, share in ((P50, 0.5), (P99, 0.99)):
                for name, so_far in waits.items():
                    self._keep(row + suffix, name, 1_000 * percentile(so_far, share))

    def _keep(self, row: str, name: str, figure: float) -> None:
        self._found.keep(row + self._suffix, name, MILLISECONDS, figure)
