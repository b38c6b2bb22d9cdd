"""Worker processes and their supervisor: deaths, restarts, drains (real processes and server)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from mulligan.actors.assemble import assemble
from mulligan.actors.broker import RedisListBroker, broker_url_beside
from mulligan.actors.process import working
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, AsNew, Claimed, Move
from mulligan.events.tasks import run_task
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server

FACTORY = '''
"""A runtime whose actors say on a Redis list what they do."""
import os, time
import dramatiq
from mulligan.actors.broker import RedisListBroker, broker_url_beside
from mulligan.events.crash_points import reach
from mulligan.actors.hints import Hints
from mulligan.actors.leases import LeaseKeeper
from mulligan.actors.roster import Roster
from mulligan.actors.server_clock import ServerClocks
from mulligan.actors.tracing import Tracing
from mulligan.errors import EnvironmentUnfit
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, ByTask, Claimed, Held, Move
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted

class Told:
    draining = False

    def __init__(self, settings, app):
        if app == "hopeless":
            raise EnvironmentUnfit("nothing to work with")
        self.store = RedisEventStore(settings.redis_url)
        self.broker = RedisListBroker(broker_url_beside(settings.redis_url))
        self.hints = Hints(self.broker)
        self.leases = LeaseKeeper(
            self.store, lease_ms=settings.lease_ms, margin_ms=settings.lease_margin_ms
        )
        self.roster = Roster(self.store, app)
        self.clocks = ServerClocks(settings.lease_ms, settings.lease_margin_ms)
        self.tracing = Tracing()
        self.client = self.broker._client
        self.tell("started")

        @dramatiq.actor(broker=self.broker, actor_name="advance_run", queue_name="mulligan")
        def advance_run(task, run):
            self.work(task, run)

    def send(self, task):
        self.hints.send(task)

    def look_around(self):
        pass

    def tell(self, what):
        self.client.rpush("told", f"{what} {os.getpid()}")

    def work(self, task, run):
        token = os.urandom(12).hex()
        sent_s = time.monotonic()
        claimed = self.store.claim(run, task, token, 3_000)
        if not isinstance(claimed, Claimed):
            return
        held = Held(run, task, token)
        with self.leases.hold(held, claimed.inbox, claimed.phase, sent_s) as lease:
            self.tell(f"claimed {run}")
            reach("task.claimed")
            if run.startswith("leaves") and not self.client.getset("left", 1):
                os._exit(5)
            if run.startswith("endless"):
                stopped = []
                lease.on_stop(lambda: stopped.append(1))
                while not stopped and not run.endswith("deaf"):
                    time.sleep(0.01)
                while run.endswith("deaf"):
                    time.sleep(0.01)
                self.tell(f"stopped {run}")
                self.store.give_back(lease.held)
                return
            self.store.append(Append(
                run=run, op=token, writer=ByTask(task, token, claimed.op, claimed.inbox),
                events=(NewEvent(RunStarted()),), moves=(Move(task, "end"),), phase="closed",
            ))
            self.tell(f"ended {run}")
'''


class Workers:
    """A supervisor as a process, and what its workers have told."""

    def __init__(self, url: str, tmp_path: Path) -> None:
        self.url = url
        self.queue = RedisListBroker(broker_url_beside(url))
        self.store = RedisEventStore(url)
        self._folder = tmp_path
        self._client = redis.Redis.from_url(broker_url_beside(url))
        self._log = (tmp_path / "log").open("w+")
        self.supervisor: subprocess.Popen[bytes] | None = None
        (tmp_path / "told_runtime.py").write_text(FACTORY)

    def start(
        self, *, processes: int = 1, app: str = "", drain_s: float = 5.0, **settings: str
    ) -> subprocess.Popen[bytes]:
        program = textwrap.dedent(
            """
            import sys
            from mulligan.actors.process import Orders
            from mulligan.actors.supervisor import Supervisor
            from mulligan.logs import configure_logs
            from mulligan.settings import load_settings
            configure_logs("info")
            orders = Orders(
                factory="told_runtime:Told", app=sys.argv[2], threads=4, drain_s=float(sys.argv[3])
            )
            sys.exit(Supervisor(load_settings(), orders, processes=int(sys.argv[1])).run())
            """
        )
        path = os.pathsep.join([str(self._folder), *sys.path])
        self.supervisor = subprocess.Popen(
            [sys.executable, "-c", program, str(processes), app, str(drain_s)],
            env=os.environ
            | {
                "PYTHONPATH": path,
                "MULLIGAN_REDIS_URL": self.url,
                "MULLIGAN_LEASE_MS": "3000",
                **settings,
            },
            stderr=self._log,
            start_new_session=True,
        )
        return self.supervisor

    def request(self, run: str) -> None:
        self.store.append(
            Append(
                run=run,
                op=f"op-{run}",
                writer=AsNew("digest"),
                events=(NewEvent(RunStarted()),),
                moves=(Move(run_task(run), "ready"),),
            )
        )

    def told(self, what: str) -> list[int]:
        """The processes that said so, in order."""
        lines = [line.decode() for line in self._client.lrange("told", 0, -1)]
        return [int(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{what} ")]

    def until_told(self, what: str, times: int = 1, timeout_s: float = 20.0) -> list[int]:
        until(lambda: len(self.told(what)) >= times, timeout_s, self.log)
        return self.told(what)

    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log().splitlines() if line.startswith("{")]
        return [one for one in map(json.loads, lines) if one["event"] == event]

    def close(self) -> None:
        if self.supervisor is not None and self.supervisor.poll() is None:
            self.supervisor.kill()
            self.supervisor.wait()
        until(lambda: not any(map(alive, self.told("started"))), 20.0, self.log)
        self.queue.close()
        self.store.close()
        self._client.close()
        self._log.close()


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent to hear of it does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(
    condition: Callable[[], object], timeout_s: float = 20.0, why: Callable[[], str] = str
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true\n{why()}"
        time.sleep(0.01)


@pytest.fixture
def workers(server: ValkeyServer, tmp_path: Path) -> Iterator[Workers]:
    with server.client() as client:
        client.flushall()
    workers = Workers(server.url, tmp_path)
    yield workers
    workers.close()


def test_processes_work_what_is_due_and_end_on_sigterm(workers: Workers) -> None:
    supervisor = workers.start(processes=2)
    assert len(set(workers.until_told("started", times=2))) == 2
    for number in range(20):
        workers.request(f"run{number}")

    until(lambda: sum(len(workers.told(f"ended run{n}")) for n in range(20)) == 20)
    supervisor.terminate()

    assert supervisor.wait(10) == 0
    assert not any(map(alive, workers.told("started")))
    assert len(workers.logged("worker_ended")) == 2


def test_a_killed_process_is_replaced_and_its_task_goes_on(workers: Workers) -> None:
    """REC: `kill -9` to resumed within the lease plus a second."""
    workers.start(MULLIGAN_CRASH_AT="task.claimed:kill")
    workers.request("run")

    (first,) = workers.until_told("claimed run")
    died_s = time.monotonic()
    workers.until_told("ended run")
    took_s = time.monotonic() - died_s

    assert workers.told("started")[0] == first
    assert workers.told("ended run") == [workers.told("started")[1]], "the replacement is not armed"
    assert took_s < 3 + 1 + 0.5, "the test's lease of 3 s plus 1 s, and what the polls here cost"
    (died,) = workers.logged("worker_died")
    assert died["cause"] == "SIGKILL"
    assert died["pid"] == first


def test_a_process_that_dies_again_and_again_is_started_ever_more_slowly(
    workers: Workers,
) -> None:
    workers.start()
    for times in range(1, 4):
        pid = workers.until_told("started", times=times)[-1]
        os.kill(pid, signal.SIGKILL)
    workers.until_told("started", times=4)

    waits = [one["restart_in_s"] for one in workers.logged("worker_died")]
    assert waits == [0.0, 0.2, 0.4]


def test_a_drain_lets_go_of_what_does_not_end(workers: Workers) -> None:
    supervisor = workers.start(drain_s=0.2)
    workers.request("endless")
    workers.until_told("claimed endless")

    supervisor.terminate()

    assert supervisor.wait(10) == 0
    assert workers.told("stopped endless")


def test_a_task_that_does_not_listen_is_given_back(workers: Workers) -> None:
    supervisor = workers.start(drain_s=0.2, MULLIGAN_LEASE_GRACE_MS="200")
    workers.request("endless-deaf")
    workers.until_told("claimed endless-deaf")

    supervisor.terminate()

    assert supervisor.wait(10) == 0
    assert not any(map(alive, workers.told("started")))
    assert workers.logged("given_back_unfinished")
    claimed = workers.store.claim("endless-deaf", "endless-deaf/", "token", 1_000)
    assert isinstance(claimed, Claimed)
    assert claimed.claims == 0, "given back, not lost"


def test_workers_do_not_outlive_a_killed_supervisor(workers: Workers) -> None:
    supervisor = workers.start()
    (worker,) = workers.until_told("started")
    until(lambda: workers.logged("worker_started"))

    supervisor.kill()
    supervisor.wait()

    until(lambda: not alive(worker))


def test_what_can_not_work_here_is_not_tried_again(workers: Workers) -> None:
    supervisor = workers.start(app="hopeless")

    assert supervisor.wait(10) == 5
    assert "nothing to work with" in workers.log()
    assert not workers.logged("worker_died")


def test_a_function_that_ends_its_process_does_not_end_them_all(workers: Workers) -> None:
    """Whatever exit code it takes: a worker that has begun to work can work here."""
    workers.start(processes=2)
    workers.until_told("started", times=2)

    workers.request("leaves")
    workers.until_told("ended leaves")

    (died,) = workers.logged("worker_died")
    assert died["cause"] == "exit 5"


def test_an_unknown_crash_point_ends_it_with_a_usage_error(workers: Workers) -> None:
    supervisor = workers.start(MULLIGAN_CRASH_AT="nowhere:kill")

    assert supervisor.wait(10) == 2
    assert "no crash point 'nowhere'" in workers.log()


def test_a_second_signal_does_not_wait(workers: Workers) -> None:
    supervisor = workers.start(drain_s=60)
    workers.request("endless-deaf")
    workers.until_told("claimed endless-deaf")

    supervisor.send_signal(signal.SIGINT)
    until(lambda: workers.logged("worker_draining"))
    supervisor.send_signal(signal.SIGINT)

    assert supervisor.wait(10) == 0
    assert not any(map(alive, workers.told("started")))


def test_idle_threads_do_not_hold_up_the_end(
    server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.actors.process.IDLE_WAKE_MS", 60_000)
    runtime = assemble(Settings(redis_url=server.url))
    with working(runtime, threads=4):
        until(lambda: runtime.broker.read_queues)  # type: ignore[attr-defined]
        leaves_s = time.monotonic()
    took_s = time.monotonic() - leaves_s
    runtime.close()

    assert took_s < 10, "they were not woken"
