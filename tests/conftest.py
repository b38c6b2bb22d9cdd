"""
Fixtures for all tests: a real server for each test process, and a log on it for each test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mulligan import single_call
from mulligan.client import Client
from mulligan.errors import EnvironmentUnfit, EventUnreadable, WaitTimedOut
from mulligan.events.envelope import Envelope
from mulligan.events.keys import Keys
from mulligan.events.redis_connection import connect
from mulligan.events.redis_store import RedisEventStore
from mulligan.projections.run import fold
from mulligan.projections.state import RunState
from mulligan.settings import Settings, next_database
from mulligan.testing.accounting import unaccounted
from mulligan.testing.cluster import ValkeyCluster
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess, process_state

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
"""How long an example takes says something about the machine's other work; it fails no test."""


@pytest.fixture(scope="session")
def server() -> Iterator[ValkeyServer]:
    """
    A throwaway Valkey. Where it can't run, tests that need it are skipped on a laptop and fail in
    CI.
    """
    try:
        started = ValkeyServer()
        started.start()
    except EnvironmentUnfit as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield started
    started.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[ValkeyServer]:
    """A throwaway Redis, where one is installed; nothing but Python has to be."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("no redis-server on PATH (Debian: apt-get install redis-server)")
    with ValkeyServer(binary) as started:
        yield started


@pytest.fixture(scope="session")
def cluster(server: ValkeyServer) -> Iterator[ValkeyCluster]:
    """A throwaway cluster of three servers, where a server can run at all."""
    with ValkeyCluster() as started:
        yield started


@pytest.fixture
def store(server: ValkeyServer) -> Iterator[RedisEventStore]:
    """A log on an empty database of the real server."""
    with server.client() as client:
        client.flushall()
    store = RedisEventStore(server.url)
    yield store
    store.close()


ACCOUNTED = {"acceptance", "integration", "faults"}
"""Folders whose tests ask models through mulligan; contract tests send requests themselves."""


class Accounts:
    """
    The models that a test starts, and the histories of all that asked them: of every run that a
    client of this process asked for or, at its end, could see on its server, and of single calls.
    """

    def __init__(self) -> None:
        self.models: list[ScriptedModel] = []
        self._asked: list[tuple[Client, str]] = []
        self._runs: dict[tuple[str, str], list[Envelope]] = {}
        self._calls: list[list[Envelope]] = []
        self._began_ms = int(time.time() * 1_000)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Take note of models, runs and calls from here on."""
        start, enqueue, close = ScriptedModel.start, Client.enqueue, Client.close
        leave = single_call._Call.__exit__

        def started(model: ScriptedModel) -> ScriptedModel:
            self.models.append(model)
            return start(model)

        def enqueued(client: Client, *given: Any, **options: Any) -> str:
            run = enqueue(client, *given, **options)
            self._asked.append((client, run))
            return run

        def closed(client: Client) -> None:
            for run, _ in client.store.runs() if self.models else ():
                self._read(client, run)
            self._asked = [(other, run) for other, run in self._asked if other is not client]
            close(client)

        def left(call: Any, *error: object) -> None:
            self._calls.append(call._events)
            leave(call, *error)

        patch.setattr(ScriptedModel, "start", started)
        patch.setattr(Client, "enqueue", enqueued)
        patch.setattr(Client, "close", closed)
        patch.setattr(single_call._Call, "__exit__", left)

    def add(self, events: list[Envelope]) -> None:
        """A single call that another process made."""
        self._calls.append(events)

    def settled(self) -> list[str]:
        """What is wrong with them; asked once all that the test began has ended."""
        for client, run in self._asked if self.models else ():
            self._read(client, run)
        received = [one for model in self.models for one in model.requests]
        runs = (events for events in self._runs.values() if self._asks_here(events))
        return unaccounted(received, [*runs, *self._calls])

    def _read(self, client: Client, run: str) -> None:
        with suppress(EventUnreadable):  # as some tests make them; nobody could work those
            events = client.store.read(run)
            # An earlier test's model may have had the port of one of ours.
            if events[-1].time_ms >= self._began_ms:
                self._runs[client._url, run] = events

    def _asks_here(self, events: list[Envelope]) -> bool:
        """Whether a run may ask a model of the test's, and not one at an address of its own."""
        plan = fold(events[0].run, events[:1]).plan
        address = plan.settings.api_base if plan is not None else None
        return address is None or address in {model.url for model in self.models}


@pytest.fixture(autouse=True)
def accounts(request: pytest.FixtureRequest) -> Iterator[Accounts]:
    """Every request that a test's models received is in a log, and none else is."""
    accounts = Accounts()
    with pytest.MonkeyPatch.context() as patch:
        if ACCOUNTED & set(request.path.parts):
            accounts.watch(patch)
        yield accounts
        assert [] == accounts.settled()


PARTITIONS = 4
PROBE = Path(__file__).parent / "projects" / "probe"


class Probe:
    """
    The workflow `projects/probe` on a real server, with its model; workers are the test's to start.
    """

    def __init__(self, url: str, folder: Path, **settings: Any) -> None:
        self.url = url
        self.record = folder / "record.txt"
        self.record.touch()
        self.environment = {
            "PROBE_RECORD": str(self.record),
            **{f"MULLIGAN_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.model = ScriptedModel({"turns": self.script()}).start()
        self.client = Client(
            Settings(redis_url=url, data_dir=folder, api_base=self.model.url, **settings)
        )
        self._workers: list[WorkerProcess] = []

    def worker(self, crash_at: str = "", **options: Any) -> WorkerProcess:
        """Start a worker; it ends with the test."""
        worker = WorkerProcess(
            self.url,
            api_base=self.model.url,
            crash_at=crash_at,
            environment=self.environment,
            **options,
        )
        self._workers.append(worker)
        worker.start()
        return worker

    def enqueue(self, run_id: str | None = None, flow: str = "probe") -> str:
        """Ask for a run."""
        return self.client.enqueue(str(PROBE / f"{flow}.yaml"), {"name": "probe"}, run_id=run_id)

    def wait(self, run: str, timeout_s: float = 30.0) -> RunState:
        """The run's state once it has ended or is paused."""
        try:
            return self.client.wait(run, timeout_s=timeout_s)
        except WaitTimedOut as error:
            raise AssertionError(f"{error}\n{self.stuck(run)}") from error

    def until(self, run: str, condition: Callable[[RunState], object]) -> RunState:
        """The run's state once `condition` holds of it."""
        until(lambda: condition(self.client.status(run)), 30.0, lambda: self.stuck(run))
        return self.client.status(run)

    def events(self, run: str) -> list[Envelope]:
        """The run's history."""
        return list(self.client.events(run))

    def types(self, run: str) -> list[str]:
        """The tags of the run's history."""
        return [event.type for event in self.events(run)]

    def lose_messages(self) -> None:
        """Drop every wake-up that waits."""
        with connect(next_database(self.url)) as client:
            client.flushdb()

    def done(self, run: str = "") -> Counter[str]:
        """How often each tool and function of a run (or of all) really ran."""
        lines = (line.split() for line in self.record.read_text().splitlines())
        return Counter(what for what, key in lines if key.startswith(f"{run}:") or not run)

    def cli(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """A command of ours against the same server."""
        return mulligan(*arguments, MULLIGAN_REDIS_URL=self.url, **options)

    def stuck(self, run: str) -> str:
        """Where a run stands, for the message of a failed assertion."""
        keys = Keys(0)
        with connect(self.url) as client:
            tasks = {"due": client.zrange(keys.due, 0, -1, withscores=True), "at": client.time()}
            records = client.hgetall(keys.tasks)
        return f"{self.types(run)}\n{tasks}\n{records}\n{self.told()}"

    def told(self) -> str:
        """What workers have logged, for the message of a failed assertion."""
        return "\n".join(worker.log() for worker in self._workers)

    def close(self) -> None:
        """End all that was started."""
        for worker in self._workers:
            worker.close()
        self.client.close()
        self.model.stop()

    def script(self) -> list[dict[str, Any]]:
        """What the model says, told apart by tool rounds, so that any request may come again."""
        helper = {"subagent": "helper", "input": "which?"}
        return [
            self.turn(0, tool_calls=[call("look"), call("put")]),
            self.turn(1, tool_calls=[call("send")]),
            self.turn(2, tool_calls=[call("call_subagent", helper)]),
            self.turn(3, json={"found": 1}),
            self.turn(0, "gather.3.1", json={"advice": "this one"}),
        ]

    def turn(self, rounds: int, invocation: str = "gather", **said: Any) -> dict[str, Any]:
        """A turn of the script that may be played any number of times."""
        return {"match": {"invocation": invocation, "rounds": rounds}, "times": "always", **said}


def call(name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """A tool call of a script."""
    return {"name": name, "arguments": arguments or {}}


def mulligan(
    *arguments: str, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("MULLIGAN_")}
    return subprocess.run(
        [sys.executable, "-m", "mulligan.cli", *arguments],
        env=environment | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
    )


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command of ours to its end, in a folder and with variables of the environment."""
    return mulligan


@pytest.fixture
def probe(server: ValkeyServer, tmp_path: Path) -> Iterator[Probe]:
    """The probing workflow on an empty database, without a worker yet."""
    with server.client() as client:
        client.flushall()
    probe = Probe(server.url, tmp_path)
    yield probe
    probe.close()


@pytest.fixture(params=["server", "redis_server", "cluster"])
def probe_everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Probe]:
    """As `probe`, on each kind of server; the queue of a cluster is on a server of its own."""
    of_cluster = request.param == "cluster"
    server = request.getfixturevalue("server" if of_cluster else request.param)
    with server.client() as client:
        client.flushall()
    if of_cluster:
        cluster = request.getfixturevalue("cluster")
        cluster.flush()
        probe = Probe(cluster.url, tmp_path, broker_url=server.url, partitions=PARTITIONS)
    else:
        probe = Probe(server.url, tmp_path)
    yield probe
    probe.close()


# --- Worker processes that cost milliseconds ------------------------------------------------------


class ForkedWorker:
    """One worker process."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self._log = log

    @property
    def alive(self) -> bool:
        return process_state(self.pid) not in (None, "Z")

    @property
    def stopped(self) -> bool:
        return process_state(self.pid) == "T"

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(one) for one in self.log().splitlines() if one.startswith("{")]
        return [one for one in lines if one["event"] == event]

    def wake(self) -> None:
        """Let it go on after it was stopped."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            until(lambda: not self.alive, 10.0)


@pytest.fixture(scope="session")
def zygote() -> Iterator[subprocess.Popen[str]]:
    """The process that worker processes are forked from."""
    made = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "faults" / "zygote.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield made
    assert made.stdin is not None
    assert made.stdout is not None
    made.stdin.close()
    made.wait(30)
    made.stdout.close()


@pytest.fixture
def forked(zygote: subprocess.Popen[str], tmp_path: Path) -> Iterator[Callable[..., ForkedWorker]]:
    """
    Starts a worker process with this environment, forked from one that has imported the program; it
    ends with the test.
    """
    workers: list[ForkedWorker] = []

    def start(environment: dict[str, str], threads: int = 8) -> ForkedWorker:
        log = tmp_path / f"worker{len(workers)}.log"
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        order = {"environment": environment, "log": str(log), "threads": threads}
        zygote.stdin.write(json.dumps(order) + "\n")
        zygote.stdin.flush()
        workers.append(ForkedWorker(int(zygote.stdout.readline()), log))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()
