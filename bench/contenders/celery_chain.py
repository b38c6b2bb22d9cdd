"""A Celery chain on Redis, broker and results, acknowledged late, worked by one threaded worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, time

from celery import Celery, chain
from serving import serve

THREADS = 8
WAIT_S = 300

URL = os.environ["BENCH_URL"]
app = Celery("celery_chain", broker=URL, backend=URL)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1)


@app.task
def step(value: int) -> int:
    """What is measured does nothing."""
    return value


@app.task
def moment() -> float:
    """When it ran."""
    return time()


def chains_of(steps: int, chains: int) -> list[float]:
    """From the first request to the end of all."""
    made = [chain(step.s(1), *(step.s() for _ in range(steps - 1))) for _ in range(chains)]
    began_s = perf_counter()
    for sent in [one.apply_async() for one in made]:
        sent.get(timeout=WAIT_S, interval=0.005)
    return [perf_counter() - began_s]


def hop() -> list[float]:
    """From a request to its start."""
    sent_s = time()
    return [moment.delay().get(timeout=WAIT_S, interval=0.005) - sent_s]


def main() -> None:
    """`BENCH_URL=URL celery_chain.py`"""
    options = ["--pool", "threads", "--concurrency", str(THREADS), "--loglevel", "ERROR"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_chain", "worker", *options, *quiet],
        cwd=Path(__file__).parent,
        stdout=subprocess.DEVNULL,
    )
    try:
        serve({"chain": chains_of, "hop": hop})
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
