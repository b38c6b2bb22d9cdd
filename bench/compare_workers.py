"""
Rows of `bench/compare.py` about worker processes: how soon a killed one is replaced, and what one
costs that has nothing to do.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from compare_size import Size
from compare_table import OURS, Figures
from contender import CONTENDERS

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess

KILLED = "kill -9 of a worker to its step begun again"
IDLE = "a worker of 32 threads with nothing to do"
THREADS = 32
LEASE_MS, MARGIN_MS = 10_000, 1_000
"""The defaults."""

SETTLE_S = 2.0
WAIT_S = 120.0


def workers(found: Figures, size: Size, peers: Path) -> None:
    """Seconds, and the share of a core."""
    del (
        peers
    )  # what they do for a killed worker takes them minutes to an hour, or a restart by hand
    with ValkeyServer(appendonly="yes") as server, TemporaryDirectory() as name:
        folder = Path(name)
        with (
            Client(Settings(redis_url=server.url, data_dir=folder)) as client,
            _workers(server, folder, processes=2) as started,
        ):
            started.until_working(2)
            for number in range(size.kills):
                run = client.enqueue(str(CONTENDERS / "held.yaml"), run_id=f"held{number}")
                found.keep(KILLED, OURS, "s", _killed(client, run, folder / run))
            (one, *_) = started.alive
            time.sleep(SETTLE_S)
            before_s = processor_s(one)
            time.sleep(size.idle_s)
            share = (processor_s(one) - before_s) / size.idle_s
            found.keep(IDLE, OURS, "% of a core", 100 * share)


def _workers(server: ValkeyServer, folder: Path, processes: int) -> WorkerProcess:
    return WorkerProcess(
        server.url,
        processes=processes,
        threads=THREADS,
        lease_ms=LEASE_MS,
        lease_margin_ms=MARGIN_MS,
        folder=CONTENDERS,
        environment={"BENCH_BEGUN": str(folder)},
    )


def _killed(client: Client, run: str, begun: Path) -> float:
    until(lambda: begun.exists() and begun.read_text(), WAIT_S)
    killed_s = time.time()
    os.kill(int(begun.read_text()), signal.SIGKILL)
    client.wait(run, timeout_s=WAIT_S)
    again_s: float = client.result(run)
    return again_s - killed_s


def processor_s(pid: int) -> float:
    """Processor seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
