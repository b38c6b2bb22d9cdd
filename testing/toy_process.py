"""
A worker process for toy runs, with real threads, real time, and a real SIGKILL.

    python -m mulligan.testing.toy_process URL SEED KILL_SHARE

It works until no run is left to work. With a `KILL_SHARE` above 0 it kills itself at one of the
points of its workers' steps, with all its threads in whatever they are doing.
"""

from __future__ import annotations

import os
import signal
import sys
from random import Random
from threading import Thread
from time import sleep
from typing import cast

from redis import Redis

from mulligan.events.redis_connection import connect
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import EventStore
from mulligan.testing.toy_run import Pace
from mulligan.testing.toy_worker import ToyWorker

PACE = Pace(lease_ms=250, backoff_ms=300, grace_ms=300)
THREADS = 3
PAUSE_SHARE = 0.01
"""Share of steps after which a thread sleeps longer than its lease holds, then goes on unaware."""


class RealSurroundings:
    """See `toy_worker.Surroundings`; effects and hints are lists on the server."""

    def __init__(self, client: Redis, random: Random) -> None:
        self.client = client
        self.store: EventStore = RedisEventStore(client)
        self.random = random
        self.pace = PACE
        self.lost_calls = 0.05

    def act(self, run: str, call: str) -> None:
        """Write the effect down."""
        self.client.rpush("effects", f"{run} {call}")

    def hint(self, task: str) -> None:
        """Send a message; some are lost, some doubled."""
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            self.client.rpush("hints", task)

    def mint_token(self) -> str:
        """96 random bits."""
        return f"{self.random.getrandbits(96):024x}"


def open_runs(store: EventStore) -> list[str]:
    """The runs that have not ended."""
    return [run for run, row in store.runs() if row.phase != "closed"]


def work(around: RealSurroundings, kill_share: float) -> None:
    """Work messages, and what is due, until every run has ended."""
    while open_runs(around.store):
        message = cast("bytes | None", around.client.lpop("hints"))
        if message is not None:
            _work_message(around, message.decode(), kill_share)
            continue
        for task in around.store.sweep(resend_ms=100).tasks:
            around.hint(task)
        sleep(0.005)


def _work_message(around: RealSurroundings, task: str, kill_share: float) -> None:
    for point in ToyWorker(around, task).steps():
        if point != "no answer" and around.random.random() < kill_share:
            os.kill(os.getpid(), signal.SIGKILL)
        if around.random.random() < PAUSE_SHARE:
            sleep(2 * PACE.lease_ms / 1000)


def main(url: str, seed: int, kill_share: float) -> None:
    """Run the threads of one process."""
    client = connect(url)
    threads = [
        Thread(target=work, args=(RealSurroundings(client, Random(f"{seed}.{n}")), kill_share))
        for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
