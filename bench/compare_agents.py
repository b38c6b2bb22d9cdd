"""
Rows of `bench/compare.py` about agents: many at once on a slow model, beside the same requests made
by httpx alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compare_size import Size
from compare_table import OURS, Figures
from compare_workers import processor_s
from contender import CONTENDERS, Contender

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess

HTTPX = "bare httpx"
PROCESSES = 2
MOST_ROUNDS = 3
WAIT_S = 180.0


def agents(found: Figures, size: Size, peers: Path) -> None:
    """Seconds for all of them, processor time of each, memory of a worker."""
    with TemporaryDirectory() as name, ValkeyServer(appendonly="yes") as server:
        folder = Path(name)
        with (
            _model(folder, size.model_s) as address,
            _workers(server, address, size.agents // PROCESSES) as workers,
            Client(Settings(redis_url=server.url, data_dir=folder)) as client,
            Contender(peers, "bare_httpx", [], log=folder / "httpx.log") as httpx,
        ):
            workers.until_working(PROCESSES)
            _work(client, "warm", size.agents)  # the client library is imported once
            for number in range(min(size.rounds, MOST_ROUNDS)):
                _round(found, size, workers, lambda n=number: _work(
                    client, f"round{n}", size.agents
                ))  # fmt: skip
                _bare(found, size, httpx, address)


def _round(found: Figures, size: Size, workers: WorkerProcess, work: Any) -> None:
    before_s, began_s = sum(map(processor_s, workers.alive)), time.perf_counter()
    work()
    took_s = time.perf_counter() - began_s
    used_s = sum(map(processor_s, workers.alive)) - before_s
    found.keep(at_once(size), OURS, "s", took_s)
    found.keep(f"{at_once(size)}: processor time of each", OURS, "ms", 1e3 * used_s / size.agents)
    memory_mb = max(map(_resident_mb, workers.alive))
    row = f"{at_once(size)}: memory of a worker of {size.agents // PROCESSES} threads"
    found.keep(row, OURS, "MB", memory_mb)


def _bare(found: Figures, size: Size, httpx: Contender, address: str) -> None:
    with urllib.request.urlopen(f"{address}/__requests") as answer:
        body = json.load(answer)[-1]["body"]
    url = f"{address}/chat/completions"
    took_s, used_s = httpx.measure("ask", url=url, body=body, count=size.agents)
    found.keep(at_once(size), HTTPX, "s", took_s)
    found.keep(f"{at_once(size)}: processor time of each", HTTPX, "ms", 1e3 * used_s / size.agents)


def at_once(size: Size) -> str:
    """The row of the wall time."""
    return f"{size.agents} agents at once, a model that takes {size.model_s:g} s"


def _work(client: Client, run: str, count: int) -> None:
    client.enqueue(str(CONTENDERS / "agents.yaml"), count, run_id=run)
    client.wait(run, timeout_s=WAIT_S)
    client.result(run)


def _workers(server: ValkeyServer, address: str, threads: int) -> WorkerProcess:
    return WorkerProcess(
        server.url,
        api_base=address,
        processes=PROCESSES,
        threads=threads,
        lease_ms=10_000,
        lease_margin_ms=1_000,
        folder=CONTENDERS,
        environment={"OPENAI_API_KEY": "none"},
    )


@contextmanager
def _model(folder: Path, takes_s: float) -> Iterator[str]:
    """The address of a model that answers everybody after so many seconds."""
    turn = {"times": "always", "delay_ms": int(1_000 * takes_s), "json": {"is": "a number"}}
    (folder / "script.json").write_text(json.dumps({"turns": [turn]}))
    command = [sys.executable, "-m", "mulligan.cli", "scripted-model", str(folder / "script.json")]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
