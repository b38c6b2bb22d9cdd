"""What must not be repeated runs in processes that end with their lease (real processes)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.actors.leases import Lease, LeaseKeeper
from mulligan.actors.writes import Write, WriteProcesses
from mulligan.client import Client
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunStarted
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, AsNew, Claimed, Held, Move
from mulligan.events.tasks import run_task
from mulligan.schemas.code import code_digest, import_code
from mulligan.schemas.load import load_workflow
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.web_rules import WebRules
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.tools.result import ToolResult

TOOLS = """
import asyncio, os, signal, time
from pathlib import Path
from mulligan import tool
from mulligan.errors import ToolError

@tool
def add(a: int, b: int, idempotency_key: str) -> dict:
    print("adding")
    return {"sum": a + b, "key": idempotency_key, "pid": os.getpid()}

@tool
async def later(text: str) -> str:
    await asyncio.sleep(0)
    return text

@tool
def refuse() -> None:
    raise ToolError("no_money", "the account is empty")

@tool
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

@tool
def hang(told: str) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    Path(told).write_text(str(os.getpid()))
    while True:
        time.sleep(60)

@tool
def last(told: str, until: str) -> str:
    Path(told).write_text(str(os.getpid()))
    while not Path(until).exists():
        time.sleep(0.005)
    return "done"

@tool
def whose(run_context) -> str:
    return f"{run_context.run} {run_context.web.allow}"

def of_run(run_context):
    return run_context.run

def big(size):
    return "x" * size
"""


class Worker:
    """What a worker has: a lease on a task, and processes for its writes."""

    def __init__(self, folder: Path, lease_ms: int = 30_000, app: str | None = None) -> None:
        self.folder = folder
        self.store = MemoryEventStore(lambda: int(time.monotonic() * 1_000))
        self.keeper = LeaseKeeper(self.store, lease_ms=lease_ms, margin_ms=100)
        self.writes = WriteProcesses(self.keeper, app)
        self.lease_ms = lease_ms

    def lease(self, run: str = "run") -> Lease:
        self.store.append(
            Append(
                run=run,
                op=run,
                writer=AsNew("digest"),
                events=(NewEvent(RunStarted()),),
                moves=(Move(run_task(run), "ready"),),
            )
        )
        sent_s = self.keeper.now_s()
        claimed = self.store.claim(run, run_task(run), "token", self.lease_ms)
        assert isinstance(claimed, Claimed)
        return self.keeper.hold(Held(run, claimed.task, "token"), 0, "open", sent_s)

    def run(self, name: str, lease: Lease | None = None, **arguments: Any) -> ToolResult | None:
        return self.writes.run(
            lease or self.lease(os.urandom(6).hex()), self.write(name, arguments)
        )

    def write(self, name: str, arguments: Any, timeout_ms: int | None = 20_000) -> Write:
        folders = (str(self.folder),)
        found = import_code(f"write_tools:{name}", folders)
        function = getattr(found, "function", found)
        return Write(
            kind="function" if function is found else "tool",
            path=f"write_tools:{name}",
            digest=code_digest(function),
            folders=folders,
            arguments=arguments,
            key="key",
            timeout_ms=timeout_ms,
        )

    def close(self) -> None:
        self.writes.close()
        self.keeper.end()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "write_tools.py").write_text(TOOLS)
    yield tmp_path
    sys.modules.pop("write_tools", None)
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


@pytest.fixture
def worker(folder: Path) -> Iterator[Worker]:
    worker = Worker(folder)
    yield worker
    worker.close()


def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(file: Path) -> int:
    until(lambda: file.exists() and file.read_text())
    return int(file.read_text())


def test_results_and_typed_errors_come_back(
    worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    added = worker.run("add", a=1, b=2)
    assert added is not None
    assert (added.value["sum"], added.value["key"]) == (3, "key")
    assert added.value["pid"] != os.getpid()
    assert worker.run("later", text="ok") == ToolResult(value="ok")
    refused = worker.run("refuse")
    assert refused is not None
    assert (refused.code, refused.message) == ("no_money", "the account is empty")
    wrong = worker.run("add", a="no", b=2)
    assert wrong is not None
    assert wrong.code == "invalid_arguments"
    large = worker.run("big", size=3_000_000)
    assert large is not None
    assert len(large.value) == 3_000_000
    out, err = capfd.readouterr()
    assert "adding" not in out, "standard output is for results of runs"
    assert "adding" in err


def test_a_process_is_used_again_and_parallel_calls_have_their_own(worker: Worker) -> None:
    pids = {(worker.run("add", a=1, b=2) or ToolResult()).value["pid"] for _ in range(3)}
    assert len(pids) == 1

    told = [worker.folder / f"told{number}" for number in range(3)]
    results: list[ToolResult | None] = []
    threads = [
        threading.Thread(
            target=lambda file: results.append(
                worker.run("last", told=str(file), until=str(worker.folder / "go"))
            ),
            args=(file,),
        )
        for file in told
    ]
    for thread in threads:
        thread.start()
    assert len({pid_in(file) for file in told}) == 3
    (worker.folder / "go").touch()
    for thread in threads:
        thread.join()
    assert results == [ToolResult(value="done")] * 3


def test_tool_and_function_are_told_of_their_run(worker: Worker) -> None:
    told = RunContext(run="run-1", call="a.1.1", owner="a", web=WebRules(allow=("a.test",)))
    of_tool = replace(worker.write("whose", {}), context=told)
    of_function = worker.write("of_run", {"run_context": told})

    answers = [
        worker.writes.run(worker.lease(str(n)), one) for n, one in enumerate((of_tool, of_function))
    ]

    assert ["run-1 ('a.test',)", "run-1"] == [one.value for one in answers if one is not None]


def test_a_process_that_dies_leaves_the_outcome_unknown(worker: Worker) -> None:
    """REC-31"""
    assert worker.run("die") is None
    assert worker.run("later", text="the next one goes on") is not None


def test_the_calls_time_ends_it_even_where_it_ignores_signals(worker: Worker) -> None:
    told = worker.folder / "told"
    write = worker.write("hang", {"told": str(told)}, timeout_ms=1_500)
    assert worker.writes.run(worker.lease(), write) is None
    until(lambda: not alive(pid_in(told)))


def test_it_ends_with_its_lease_unless_that_is_renewed(folder: Path) -> None:
    worker = Worker(folder, lease_ms=1_200)
    try:
        told = folder / "told"
        worker.run("add", a=1, b=1)  # so that no start counts below
        assert worker.run("hang", told=str(told)) is None, "nobody renews"
        until(lambda: not alive(pid_in(told)))

        worker.keeper.start()
        lease = worker.lease("renewed")
        first_end_s = lease.deadline_s
        timer = threading.Thread(
            target=lambda: (until(lambda: time.monotonic() > first_end_s + 0.2), _touch(folder))
        )
        timer.start()
        result = worker.run("last", lease, told=str(folder / "kept"), until=str(folder / "go"))
        timer.join()
        assert result == ToolResult(value="done")
    finally:
        worker.close()


def _touch(folder: Path) -> None:
    (folder / "go").touch()


def test_what_is_not_ours_any_more_is_not_begun(worker: Worker) -> None:
    lease = worker.lease()
    worker.store.give_back(lease.held)
    told = worker.folder / "told"
    result = worker.run("hang", lease, told=str(told))
    assert result is not None
    assert result.code == "not_run"
    assert not told.exists()


def test_code_of_another_version_is_not_run(worker: Worker) -> None:
    write = worker.write("add", {"a": 1, "b": 2})
    (worker.folder / "write_tools.py").write_text(TOOLS.replace("a + b", "a - b"))
    result = worker.writes.run(worker.lease(), write)
    assert result is not None
    assert result.code == "not_run"
    assert "another version" in (result.message or "")


def test_the_workers_app_is_imported_there_too(folder: Path) -> None:
    (folder / "write_app.py").write_text("import os\nos.environ['APP_SAYS'] = 'hello'\napp = 1\n")
    (folder / "write_tools.py").write_text(
        "import os\nfrom mulligan import tool\n@tool\ndef said() -> str:\n"
        "    return os.environ['APP_SAYS']\n"
    )
    sys.path.append(str(folder))
    worker = Worker(folder, app="write_app:app")
    try:
        assert worker.run("said") == ToolResult(value="hello")
    finally:
        worker.close()


def test_a_lost_origin_is_replaced(worker: Worker) -> None:
    worker.run("add", a=1, b=1)
    origin = worker.writes._origin
    assert origin is not None
    os.kill(origin._process.pid, signal.SIGKILL)
    origin._process.wait()
    assert worker.run("die") is None, "its forks live on"
    assert worker.run("later", text="ok") == ToolResult(value="ok")


# --- A worker and its processes that sleep through the lease --------------------------------------

FLOW = """
name: sleepers
nodes:
  - id: part
    kind: function
    call: "sleepers_{effect}:work"
    for_each: input.items
    effect: {effect}
"""
STEPS = """
import os, time
from pathlib import Path

def work(item, input):
    folder = Path(input["folder"])
    (folder / f"begun{item}").write_text(str(os.getpid()))
    while not (folder / "go").exists():
        time.sleep(0.002)
    (folder / f"late{item}").touch()
    return item
"""
SLEEPERS = 10


@pytest.mark.server
@pytest.mark.parametrize(("effect", "late"), [("write", 0), ("idempotent", SLEEPERS)])
def test_no_write_wakes_up_after_its_lease(
    server: ValkeyServer, tmp_path: Path, effect: str, late: int
) -> None:
    """
    Ten calls of a worker that is stopped beyond its lease, its processes too: as `write` none of
    them goes on when they wake up; in threads, without the alarm, all ten do.
    """
    with server.client() as client:
        client.flushall()
    (tmp_path / f"sleepers_{effect}.py").write_text(STEPS)
    (tmp_path / "flow.yaml").write_text(FLOW.format(effect=effect))
    with Client(Settings(redis_url=server.url)) as client, _working(server, tmp_path) as process:
        plan = client.plan(load_workflow(str(tmp_path / "flow.yaml")))
        run = client.enqueue(plan, {"items": list(range(SLEEPERS)), "folder": str(tmp_path)})
        pids = {pid_in(tmp_path / f"begun{item}") for item in range(SLEEPERS)}
        stopped = {process.pid, *pids}
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        tasks = [f"{run}/n:part[{item}]" for item in range(SLEEPERS)]
        until(lambda: all(_taken(client, run, task) for task in tasks))

        (tmp_path / "go").touch()
        for pid in sorted(stopped - {process.pid}):
            _wake(pid)  # before the worker, which could tell them that the lease is lost
        _wake(process.pid)

        done = [tmp_path / f"late{item}" for item in range(SLEEPERS)]
        until(lambda: all(f.exists() for f in done) if late else not any(map(alive, pids)))
        assert sum(file.exists() for file in done) == late


def _taken(client: Client, run: str, task: str) -> bool:
    """Whether another worker may have the task by now; the same token again keeps it."""
    return isinstance(client.store.claim(run, task, "another", 60_000), Claimed)


def _wake(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


class _working:
    """A worker process, which a test may stop."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        orders = {"factory": "mulligan.actors.assemble:assemble", "threads": SLEEPERS + 2}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mulligan.actors.process", json.dumps(orders)],
            stdin=subprocess.PIPE,
            cwd=folder,
            env=os.environ
            | {
                "MULLIGAN_REDIS_URL": server.url,
                "MULLIGAN_LEASE_MS": "2500",
                "MULLIGAN_LEASE_MARGIN_MS": "300",
                "MULLIGAN_LOG_LEVEL": "error",
            },
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
