"""
What the page costs the workers: a thousand runs over four of them, in turns with nobody looking,
with `mulligan serve` and a client of its stream, and with the page open in a Chromium.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx2 as httpx
from load_world import Load, load, say
from playwright.sync_api import sync_playwright

from mulligan.tools.web_use.executable import find_chromium

PARTS, PROCESSES, ROUNDS = 8, 4, 3
OVERHEAD_BOUND = 0.05


def watched(size: int) -> bool:
    """A thousand runs with and without the page: wall time, and processor time of who shows it."""
    took: dict[str, list[float]] = {name: [] for name in LOOKING}
    cost: list[float] = []
    wrong: list[str] = []
    for _ in range(ROUNDS):
        for name, looking in LOOKING.items():
            wall_s, processor_s, found = _worked(looking, size)
            took[name].append(wall_s)
            wrong += found
            if name == "stream":
                cost.append(processor_s)
    alone = statistics.median(took["nobody"])
    more = {name: statistics.median(one) / alone - 1 for name, one in took.items()}
    if more["stream"] > OVERHEAD_BOUND:
        wrong.append("who serves the page costs the workers too much")
    return say(
        "watched", wrong, runs=size, rounds=ROUNDS,
        nobody_s=[round(one, 2) for one in sorted(took["nobody"])],
        served=f"{more['stream']:+.1%}", with_chromium=f"{more['page']:+.1%}",
        serve_cpu_s=round(statistics.median(cost), 2),
    )  # fmt: skip


def _worked(looking: Callable[[Load], Any], size: int) -> tuple[float, float, list[str]]:
    """Seconds until all have ended, processor seconds of who serves it, and what is wrong."""
    with load() as world:
        with world.workers(processes=PROCESSES) as workers, _projector(world):
            workers.until_working(PROCESSES)
            with looking(world) as pids:
                before_s, began_s = _processor_s(pids), time.monotonic()
                world.ask(world.flow, size, PARTS)
                world.until_all_ended()
                took_s, processor_s = time.monotonic() - began_s, _processor_s(pids) - before_s
        return took_s, processor_s, world.wrong()


@contextmanager
def _served(world: Load) -> Iterator[tuple[str, int]]:
    """`mulligan serve`: its address and process."""
    command = [sys.executable, "-m", "mulligan.cli", "serve", "--port", "0", "--json"]
    with _process(world, command) as serving:
        assert serving.stdout is not None
        yield json.loads(serving.stdout.readline())["url"], serving.pid


@contextmanager
def _projector(world: Load) -> Iterator[None]:
    with _process(world, [sys.executable, "-m", "mulligan.cli", "projector"]):
        yield


@contextmanager
def _process(world: Load, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "MULLIGAN_REDIS_URL": world.server.url}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def _stream(world: Load) -> Iterator[list[int]]:
    """Somebody reads the stream of all runs, as the page does, on a machine of their own."""
    with _served(world) as (url, pid), httpx.Client(timeout=None) as client:
        over = threading.Event()

        def read() -> None:
            with client.stream("GET", f"{url}events?start=now") as answer:
                for _ in answer.iter_raw():
                    if over.is_set():
                        return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield [pid]
        over.set()


@contextmanager
def _page(world: Load) -> Iterator[list[int]]:
    """The page is open in a Chromium here, which takes of the same cores."""
    root = ["--no-sandbox"] if os.getuid() == 0 else []
    with _served(world) as (url, pid), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(None), args=root)
        page = browser.new_page()
        page.goto(url)
        page.locator("table").first.wait_for(state="attached")
        yield [pid]
        browser.close()


LOOKING: dict[str, Callable[[Load], Any]] = {
    "nobody": lambda world: nullcontext([]),
    "stream": _stream,
    "page": _page,
}


def _processor_s(pids: list[int]) -> float:
    """Processor seconds of processes so far, user and system."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")
