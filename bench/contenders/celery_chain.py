"""A Celery chain on Redis, broker and results, acknowledged late, worked by one threaded worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep, time

from celery import Celery, chain
from celery.result import AsyncResult
from serving import serve

THREADS = 8
WAIT_S = 120
POLL_S = 0.005

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
        _value(sent)
    return [perf_counter() - began_s]


def hop() -> list[float]:
    """From a request to its start."""
    sent_s = time()
    return [_value(moment.delay()) - sent_s]


def between() -> list[float]:
    """From a step to the next."""
    second = chain(moment.si(), moment.si()).apply_async()
    return [_value(second) - _value(second.parent)]


def _value(sent: AsyncResult) -> float:
    """Asked for until it is there: the library's own waiting at times misses that it ended."""
    until_s = perf_counter() + WAIT_S
    while not sent.ready():
        if perf_counter() > until_s:
            raise TimeoutError(f"the task {sent.id} has not ended")
        sleep(POLL_S)
    value: float = sent.get(timeout=WAIT_S)
    return value


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
        serve({"chain": chains_of, "hop": hop, "between": between})
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
