"""
One worker process: Dramatiq's threads, the lease keeper and the reconciler around a runtime.

`python -m mulligan.actors.process` is what the supervisor starts. It ends when its stdin does, so
that it does not outlive a supervisor that was killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol

import dramatiq
import msgspec
import structlog

from mulligan.actors.broker import queue_length
from mulligan.actors.end_signals import end_signals
from mulligan.actors.hints import Hints
from mulligan.actors.leases import LeaseKeeper
from mulligan.actors.reconciler import Reconciler
from mulligan.actors.roster import Roster
from mulligan.actors.rounds import Rounds
from mulligan.actors.server_clock import ServerClocks
from mulligan.actors.tracing import Tracing
from mulligan.actors.work_queue import WorkQueue
from mulligan.errors import MulliganError
from mulligan.events.crash_points import arm
from mulligan.events.store import EventStore
from mulligan.logs import configure_logs
from mulligan.settings import Settings, load_settings

DEFAULT_THREADS = 32
"""They wait for models most of the time."""

DRAIN_S = 20.0
"""How long what runs may go on after SIGTERM, before it is told to stop."""

IDLE_WAKE_MS = 1_000
"""
How long Dramatiq's readers wait at a time. The end of a worker wakes ours; that of a broker of
another make may take so long to notice.
"""

HOPELESS = {2: 162, 5: 165}
"""
How a process ends that can't work here, now or after a restart, by the exit code of the reason
(usage, surroundings). Codes of our own: a function that ends its process may use any usual one.
"""

_log = structlog.get_logger(__name__)


class WorkingRuntime(Protocol):
    """What a process works with; `mulligan.actors.runtime.Runtime` is it."""

    store: EventStore
    broker: dramatiq.Broker
    leases: LeaseKeeper
    hints: Hints
    roster: Roster
    clocks: ServerClocks
    tracing: Tracing
    draining: bool

    def send(self, task: str) -> None:
        """Wake whoever works `task`."""

    def look_around(self) -> None:
        """What else is looked after every few seconds."""


RuntimeFactory = Callable[[Settings, str | None], WorkingRuntime]
"""Makes the runtime of a process from settings and the `APP` of the command line."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """
    What the supervisor tells a process: the factory of its runtime as `module:attribute`, the
    app, threads, queues (None: all), and how long a drain may take.
    """

    factory: str
    app: str | None = None
    threads: int = DEFAULT_THREADS
    queues: tuple[str, ...] | None = None
    drain_s: float = DRAIN_S


@contextmanager
def working(
    runtime: WorkingRuntime,
    *,
    threads: int = DEFAULT_THREADS,
    queues: Sequence[str] | None = None,
    drain_s: float = DRAIN_S,
    grace_s: float = 2.0,
) -> Iterator[None]:
    """
    Work within this context, in threads of this process; leaving it drains.

    Threads finish what they do, or after `drain_s` are told to stop and have `grace_s` to record
    what came of it; what is held still is given back.
    """
    worker = dramatiq.Worker(
        runtime.broker,
        queues=set(queues) if queues else None,
        worker_timeout=IDLE_WAKE_MS,
        worker_threads=threads,
    )
    worker.work_queue = WorkQueue()
    reconciler = Reconciler(
        runtime.store,
        runtime.send,
        lambda: queue_length(runtime.broker),
        seen=runtime.clocks.seen,
    )
    rounds = Rounds(runtime.store, runtime.roster, also=runtime.look_around)
    runtime.leases.start()
    worker.start()
    reconciler.start()
    rounds.start()
    try:
        yield
    finally:
        runtime.draining = True
        reconciler.end()
        rounds.end()
        _drain(worker, runtime, drain_s, grace_s)
        runtime.leases.end()
        runtime.tracing.flush()


def _drain(
    worker: dramatiq.Worker, runtime: WorkingRuntime, drain_s: float, grace_s: float
) -> None:
    stopper = threading.Timer(drain_s, runtime.leases.stop_work)
    stopper.daemon = True
    stopper.start()
    _wake_idle_threads(worker)
    worker.stop(timeout=int((drain_s + grace_s) * 1_000))
    stopper.cancel()
    left = runtime.leases.held()
    if left:
        _log.warning("given_back_unfinished", tasks=len(left))
    runtime.leases.give_back_all()


def _wake_idle_threads(worker: dramatiq.Worker) -> None:
    """Those that wait for work end now; without that, within their timeout."""
    while not all(thread.running for thread in worker.workers):
        time.sleep(0.001)  # one that is told to stop before it has begun would never stop
    for thread in worker.workers:
        thread.stop()
    assert isinstance(worker.work_queue, WorkQueue)
    worker.work_queue.close()


def main() -> None:
    """
    Work by the orders on the command line until SIGTERM, SIGINT or the end of stdin. Ends the
    process itself: a thread that waits for a model must not hold up the exit.
    """
    end = threading.Event()
    threading.Thread(target=_end_with_stdin, args=(end,), daemon=True).start()
    try:
        with end_signals(end.set):
            _work(msgspec.json.decode(sys.argv[1], type=Orders), end)
    except MulliganError as error:
        print(f"mulligan: {error}", file=sys.stderr, flush=True)
        os._exit(HOPELESS.get(error.exit_code, error.exit_code))
    os._exit(0)


def _work(orders: Orders, end: threading.Event) -> None:
    settings = load_settings()
    configure_logs(settings.log_level)
    arm(settings.crash_at, settings.crash_ask)
    runtime = _factory(orders.factory)(settings, orders.app)
    with working(
        runtime,
        threads=orders.threads,
        queues=orders.queues,
        drain_s=orders.drain_s,
        grace_s=settings.lease_grace_ms / 1_000,
    ):
        _log.info("worker_started", pid=os.getpid(), threads=orders.threads)
        end.wait()
        _log.info("worker_draining", pid=os.getpid())
        began_s = time.monotonic()
    _log.info("worker_ended", pid=os.getpid(), seconds=round(time.monotonic() - began_s, 1))


def _factory(name: str) -> RuntimeFactory:
    module, _, attribute = name.partition(":")
    factory: RuntimeFactory = getattr(import_module(module), attribute)
    return factory


def _end_with_stdin(end: threading.Event) -> None:
    sys.stdin.buffer.read()
    end.set()


if __name__ == "__main__":
    main()
