"""
What is killed while runs are worked, and how soon they go on: parts of `bench/load.py`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from signal import SIGKILL
from typing import Any

from load_world import Load, load, say

from mulligan.errors import StoreUnavailable
from mulligan.events import facts

PARTS = 7
PROCESSES = 4
KILLS = 24
LEASE_MS = 3_000
SLACK_MS = 100
"""Between an append's moment by the server and the call that it allowed or recorded."""


def killed(size: int) -> bool:
    """
    Runs of ten nodes while workers, the projector and the server (every append synced) are killed:
    all end, or wait for a person to say what became of their write; no write is called twice, and
    nothing whose result is known is called again; a producer that asks again gets the same run.
    """
    with load(appendfsync="always") as world, world.workers(processes=PROCESSES) as workers:
        workers.until_working(PROCESSES)
        killer = Killer(world, workers)
        began_s = time.monotonic()
        for number in range(size):
            killer.kill()
            _ask(world, f"run{number}")
        world.until_all_ended(killer.kill)
        took_s = time.monotonic() - began_s
        killer.end()
        wrong = world.wrong() + _called_wrongly(world)
        calls, waiting = world.calls(), len(world.waiting())
        nodes = size * (PARTS + 3)
        if nodes - len(calls) > waiting:
            wrong.append(f"{nodes - len(calls)} functions never ran, {waiting} of them writes")
        return say(
            "killed", wrong, runs=size, kills=dict(killer.kills), took_s=round(took_s, 1),
            called_again=calls.total() - len(calls), unknown_writes=waiting,
        )  # fmt: skip


def _ask(world: Load, run: str) -> None:
    """As a producer does whose call got no answer: again, by the same id."""
    while True:
        try:
            world.client.enqueue(world.writing, {"items": PARTS}, run_id=run)
            return
        except StoreUnavailable:
            time.sleep(0.01)


def _called_wrongly(world: Load) -> list[str]:
    """Writes that were called twice, and what was called after its result was there."""
    writes = [key for key, times in world.calls().items() if key.endswith(":publish") and times > 1]
    wrong = [f"the write {key} was called twice" for key in writes]
    last_ms = world.last_calls_ms()
    for run, _ in world.client.store.runs():
        for event in world.client.store.read(run):
            called_ms = last_ms.get(f"{run}:{event.node}", 0)
            ended = isinstance(event.data, facts.NodeCompleted)
            if ended and called_ms > event.time_ms + SLACK_MS:
                wrong.append(f"{run}: {event.node} was called after its result was there")
    return wrong


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


def death() -> bool:
    """From the start of what kills a worker (`kill -9`) to its next start, beyond the lease."""
    beyond = []
    for _ in range(3):
        with (
            load() as world,
            world.workers(processes=1, lease_ms=LEASE_MS, crash_at="function.before:kill"),
        ):
            (run,) = world.ask(world.one, 1, 1)
            world.client.wait(run, timeout_s=60)
            starts = [
                event.time_ms
                for event in world.client.events(run)
                if isinstance(event.data, facts.NodeStarted)
            ]
            beyond.append(starts[-1] - starts[0] - LEASE_MS)
    wrong = [] if max(beyond) <= 1_000 else ["too late"]
    return say("death", wrong, lease_ms=LEASE_MS, start_to_restart_minus_lease_ms=beyond)
