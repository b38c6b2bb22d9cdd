"""
The toy runs again, on worker processes with threads: real time, real pauses, real kills.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from time import monotonic

import pytest
from redis import Redis

from mulligan.errors import AppendRefused
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunCancelRequested
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, AsFact, Move
from mulligan.events.tasks import run_task
from mulligan.projections.feed_history import feed_problems
from mulligan.testing.server import ValkeyServer
from mulligan.testing.toy_history import problems
from mulligan.testing.toy_process import open_runs
from mulligan.testing.toy_run import request
from mulligan.testing.worlds import open_questions

pytestmark = pytest.mark.server

RUNS = 16
PROCESSES = 3
KILLS = 6
BOUND_S = 90.0


@pytest.fixture
def client(server: ValkeyServer) -> Iterator[Redis]:
    with server.client() as client:
        client.flushall()
        yield client
        client.flushall()


class Crew:
    """Worker processes; one that was killed is replaced, and after `KILLS` nobody kills."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.killed = 0
        self.started = 0
        self.processes = [self._start() for _ in range(PROCESSES)]

    def _start(self) -> subprocess.Popen[bytes]:
        self.started += 1  # and its seed: the same one twice would mint the same tokens and ops
        kill_share = "0.02" if self.killed < KILLS else "0"
        module = "mulligan.testing.toy_process"
        return subprocess.Popen(
            [sys.executable, "-m", module, self.url, str(self.started), kill_share]
        )

    def replace_the_dead(self) -> None:
        for at, process in enumerate(self.processes):
            if process.poll() == -9:
                self.killed += 1
                self.processes[at] = self._start()

    def end(self) -> list[int]:
        return [process.wait(20) for process in self.processes]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def crew(server: ValkeyServer, client: Redis) -> Iterator[Crew]:
    store = RedisEventStore(client)
    random = Random(1)
    for number in range(RUNS):
        kinds = {f"n{n}": random.choice(["plain", "slow", "ask"]) for n in range(4)}
        store.append(request(f"r{number}", f"new{number}", kinds))
    crew = Crew(server.url)
    yield crew
    crew.kill()


def answer_all(store: RedisEventStore, runs: list[str]) -> None:
    for run in runs:
        for key, fact, task in open_questions(run, store.read(run)):
            tell(store, run, key, fact, task)


def tell(store: RedisEventStore, run: str, key: str, fact: object, task: str, **more: str) -> None:
    moves = (Move(task, "wake"),)
    append = Append(
        run=run, op=f"op-{key}", writer=AsFact(key), events=(NewEvent(fact),), moves=moves, **more
    )
    with suppress(AppendRefused):  # it has ended meanwhile
        store.append(append)


def test_runs_end_once_whatever_happens_to_their_workers(client: Redis, crew: Crew) -> None:
    """REC-33 for the log, with processes."""
    store = RedisEventStore(client)
    until_s = monotonic() + BOUND_S
    doomed = [f"r{number}" for number in range(0, RUNS, 4)]
    while (going := open_runs(store)) and monotonic() < until_s:
        crew.replace_the_dead()
        answer_all(store, going)
        if crew.killed > 2 and doomed:
            run = doomed.pop()
            fact = RunCancelRequested()
            tell(store, run, "cancel", fact, run_task(run), phase="cancelling")
    crew.replace_the_dead()

    assert [] == open_runs(store)
    assert [0] * PROCESSES == crew.end()
    versions = {}
    effects = [line.decode().split() for line in client.lrange("effects", 0, -1)]
    for run, row in store.runs():
        events = store.read(run)
        of_run = [call for of, call in effects if of == run]
        assert [] == list(problems(row, events, of_run)), run
        versions[run] = len(events)
    assert [] == feed_problems(store.feed(0, limit=100_000), versions)
    assert crew.killed > 0
    print(f"{crew.killed} processes killed, {sum(versions.values())} events")
