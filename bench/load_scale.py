"""
What grows with the number of runs, and how soon who follows is told: parts of `bench/load.py`.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from load_world import Load, load, say

from mulligan.actors.broker import broker_url_beside, make_broker
from mulligan.actors.hints import QUEUE
from mulligan.actors.reconciler import WINDOW
from mulligan.decisions import people
from mulligan.events import facts
from mulligan.events.envelope import NewEvent
from mulligan.events.keys import Keys
from mulligan.events.store import Append, ByVersion

HOPS = 100
TAILED = 200
FAR_MS = 86_400_000
WATCHED_S = 120.0
LOOK_S = 0.25
WINDOWS = 6
TAIL_BOUND_MS = 100
"""What the events of a follower may be late, at the 99th percentile."""


def stored(size: int) -> bool:
    """From a new run's request to its start beside 1 %, 10 % and all of `size` ended runs."""
    levels = [size // 100, size // 10, size]
    waits: list[tuple[int, int]] = []
    with load() as world, world.workers(processes=1) as workers:
        workers.until_working()
        began_s, there = time.monotonic(), 0
        for level in levels:
            for number in range(there, level):
                _store_ended(world, f"old{number}")
            there = level
            waits.append(_hops(world, f"new{level}-"))
        took_s = time.monotonic() - began_s
        with world.server.client() as client:
            used_mb = client.info("memory")["used_memory"] >> 20
    wrong = [] if waits[-1][0] <= 2 * waits[0][0] + 2 else ["the latency grew with what is stored"]
    figures = {f"p50_p99_ms_at_{level}": wait for level, wait in zip(levels, waits, strict=True)}
    return say("stored", wrong, **figures, server_mb=used_mb, took_s=round(took_s))


def _store_ended(world: Load, run: str) -> None:
    """As a run that was asked for and has ended, without the work in between."""
    world.client.store.append(
        people.request(run, f"{run}.ask", world.one, {"items": 1}, delay_ms=FAR_MS)
    )
    world.client.store.append(
        Append(
            run=run,
            op=f"{run}.end",
            writer=ByVersion(1),
            events=(NewEvent(facts.RunCancelled()),),
            phase="closed",
        )
    )


def _hops(world: Load, name: str, **more: object) -> tuple[int, int]:
    """The median and the 99th percentile of the waits of new runs, in server milliseconds."""
    waits = []
    for number in range(HOPS):
        run = world.client.enqueue(world.one, {"items": 1}, run_id=f"{name}{number}", **more)
        world.client.wait(run, timeout_s=60)
        times = {type(event.data): event.time_ms for event in world.client.events(run)}
        waits.append(times[facts.RunStarted] - times[facts.RunRequested])
    waits.sort()
    return waits[HOPS // 2], waits[HOPS * 99 // 100]


def due(size: int) -> bool:
    """
    `size` runs that are due at once, none of them in the queue: the rate at which two processes
    start them, and the longest queue, until all have ended or two minutes are over; then new runs
    of priority -1 beside the rest.
    """
    with load() as world:
        for number in range(size):
            world.client.store.append(
                people.request(f"due{number}", f"due{number}", world.one, {"items": 1})
            )
        with world.workers(processes=2) as workers:
            workers.until_working(2)
            left, longest = _watched(world)
            rates = _rates(left)
            urgent = _hops(world, "urgent", priority=-1) if left[-1][1] else None
    wrong = [] if longest <= 2 * WINDOW else ["the queue grew beyond two windows"]
    if len(rates) > 1 and min(rates) < max(rates) / 2:
        wrong.append("the rate was not steady")
    return say(
        "due", wrong, runs=size, ended=size - left[-1][1], in_s=round(left[-1][0], 1),
        runs_per_s=rates, longest_queue=longest, urgent_p50_p99_ms=urgent,
    )  # fmt: skip


def _watched(world: Load) -> tuple[list[tuple[float, int]], int]:
    """How many runs were left at which second, and the longest queue."""
    broker = make_broker(broker_url_beside(world.server.url))
    broker.declare_queue(QUEUE)
    left: list[tuple[float, int]] = []
    longest, began_s = 0, time.monotonic()
    with world.server.client() as client:
        while True:
            longest = max(longest, broker.queue_length())  # type: ignore[attr-defined]
            left.append((time.monotonic() - began_s, client.hlen(Keys(0).tasks)))
            if not left[-1][1] or left[-1][0] > WATCHED_S:
                broker.close()
                return left, longest
            time.sleep(LOOK_S)


def _rates(left: list[tuple[float, int]]) -> list[int]:
    """Runs a second in each of a few windows of the same length."""
    rates = []
    for window in range(WINDOWS):
        first = left[window * (len(left) - 1) // WINDOWS]
        last = left[(window + 1) * (len(left) - 1) // WINDOWS]
        rates.append(round((first[1] - last[1]) / max(last[0] - first[0], LOOK_S)))
    return rates


def tail() -> bool:
    """From an append, by the server's clock, to its line on the standard output of `tail`."""
    late = {"all": _tail_of_all(), "run": _tail_of_a_run()}
    wrong = [f"{name}: too late" for name, ms in late.items() if ms[1] > TAIL_BOUND_MS]
    return say(
        "tail", wrong, events={name: ms[3] for name, ms in late.items()},
        p50_p99_max_ms={name: ms[:3] for name, ms in late.items()},
    )  # fmt: skip


def _tail_of_all() -> tuple[float, float, float, int]:
    with load() as world, tailing(world) as lines:
        world.ask(world.one, 1, 1, name="warm")
        lines.get(timeout=30)
        for number in range(TAILED):
            world.ask(world.one, 1, 1, name=f"run{number}-")
            time.sleep(0.01)
        return _percentiles([lines.get(timeout=30) for _ in range(TAILED)])


def _tail_of_a_run() -> tuple[float, float, float, int]:
    """Of one that is worked: what stood there before the command was up is left out."""
    with load() as world:
        world.ask(world.flow, 1, TAILED // 2, name="run")
        with tailing(world, "run0") as lines:
            lines.get(timeout=30)
            with world.workers(processes=1):
                world.client.wait("run0", timeout_s=60)
            count = world.client.status("run0").version - 1
            return _percentiles([lines.get(timeout=30) for _ in range(count)])


def _percentiles(late_ms: list[float]) -> tuple[float, float, float, int]:
    """The median, the 99th percentile, the longest, and how many."""
    late_ms.sort()
    shown = (late_ms[len(late_ms) // 2], late_ms[len(late_ms) * 99 // 100], late_ms[-1])
    p50, p99, longest = (round(ms, 1) for ms in shown)
    return p50, p99, longest, len(late_ms)


@contextmanager
def tailing(world: Load, *arguments: str) -> Iterator[queue.Queue[float]]:
    """`mulligan tail --follow`; of each line, how many milliseconds after its event it came."""
    environment = {**os.environ, "MULLIGAN_REDIS_URL": world.server.url}
    process = subprocess.Popen(
        [sys.executable, "-m", "mulligan.cli", "tail", *arguments, "--follow"],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    late: queue.Queue[float] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            event = datetime.fromisoformat(json.loads(line)["time"])
            late.put((time.time() - event.timestamp()) * 1000)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield late
    finally:
        process.terminate()
        process.wait(timeout=30)
        reader.join()
