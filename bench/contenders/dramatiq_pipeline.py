"""A Dramatiq pipeline on its own Redis broker, with its results, worked by threads beside it."""

from __future__ import annotations

import sys
from time import perf_counter, time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from serving import serve

THREADS = 8
WAIT_MS = 300_000


def main() -> None:
    """`dramatiq_pipeline.py URL`"""
    url = sys.argv[1]
    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)

    @dramatiq.actor(store_results=True)
    def step(value: int) -> int:
        return value

    @dramatiq.actor(store_results=True)
    def moment() -> float:
        return time()

    def chain(steps: int, chains: int) -> list[float]:
        first, rest = step.message(1), [step.message() for _ in range(steps - 1)]
        pipelines = [
            dramatiq.pipeline([first.copy(), *(one.copy() for one in rest)]) for _ in range(chains)
        ]
        began_s = perf_counter()
        for one in pipelines:
            one.run()
        for one in pipelines:
            one.get_result(block=True, timeout=WAIT_MS)
        return [perf_counter() - began_s]

    def hop() -> list[float]:
        sent_s = time()
        return [moment.send().get_result(block=True, timeout=WAIT_MS) - sent_s]

    def between() -> list[float]:
        second = moment.message_with_options(pipe_ignore=True)
        both = dramatiq.pipeline([moment.message(), second]).run()
        first_s, second_s = both.get_results(block=True, timeout=WAIT_MS)
        return [second_s - first_s]

    worker = dramatiq.Worker(broker, worker_threads=THREADS)
    worker.start()
    serve({"chain": chain, "hop": hop, "between": between})
    worker.stop()


if __name__ == "__main__":
    main()
