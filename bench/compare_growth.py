"""Rows of `bench/compare.py` about growth: the same work beside ever more stored runs."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from compare_size import CHAINS, Size
from compare_table import OURS, Figures, percentile
from contender import Contender
from memory import fill

from mulligan.events import facts
from mulligan.events.envelope import NewEvent
from mulligan.events.payload import Payload
from mulligan.events.redis_store import RedisEventStore
from mulligan.projections.projector import Projector
from mulligan.testing.server import ValkeyServer

THROUGHPUT = f"{CHAINS} chains at once beside stored runs"
LATENCY = "request to first step beside stored runs, p50"
STEPS, HOPS = 25, 40
LEAST_ROUNDS = 5
"""What grows by a fifth can't be told from what else the machine does in one round of a second."""

ENDED = [
    [
        NewEvent(
            facts.RunRequested(
                workflow="w", workflow_version=1, digest="", plan={}, input=Payload.of(1)
            )
        )
    ],
    [NewEvent(facts.RunStarted()), NewEvent(facts.RunCompleted(output=Payload.of("x" * 300)))],
]


def growth(found: Figures, size: Size, peers: Path) -> None:
    """Milliseconds a step and a hop; each server has so many runs, and all are asked in turn."""
    del peers
    with ExitStack() as stack:
        contenders = {stored: _beside(stack, stored) for stored in size.stored}
        for one in contenders.values():
            one.measure("chain", steps=STEPS, chains=CHAINS)  # warm
            one.measure("hop")
        for _ in range(max(size.rounds, LEAST_ROUNDS)):
            for stored, one in contenders.items():
                (seconds,) = one.measure("chain", steps=STEPS, chains=CHAINS)
                figure = 1_000 * seconds / (STEPS * CHAINS)
                found.keep(THROUGHPUT, named(stored), "ms a step", figure)
                waits = [wait for _ in range(HOPS) for wait in one.measure("hop")]
                found.keep(LATENCY, named(stored), "ms", 1_000 * percentile(waits, 0.5))


def named(stored: int) -> str:
    """Ours beside so many runs."""
    return f"{OURS}, {stored:,} runs"


def _beside(stack: ExitStack, stored: int) -> Contender:
    folder = Path(stack.enter_context(TemporaryDirectory()))
    server = stack.enter_context(ValkeyServer(appendonly="yes"))
    store = RedisEventStore(server.url)
    store.partitions()
    with server.client() as client:
        fill(client, stored, ENDED)
    Projector(store).catch_up()
    store.close()
    arguments = [server.url, str(folder)]
    return stack.enter_context(
        Contender(Path(sys.executable), "ours", arguments, log=folder / "ours.log")
    )
