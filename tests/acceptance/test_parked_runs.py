"""Tasks that kill their workers, and code that no worker has: parked, and redriven (processes)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from mulligan.actors.roster import live_workers
from mulligan.cli import main
from mulligan.client import Client, why
from mulligan.events import facts
from mulligan.projections.history import problems
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server

FLOW = """
name: flow
nodes:
  - {id: only, kind: function, call: "parked_steps:only"}
"""


@pytest.fixture
def client(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with server.client() as connection:
        connection.flushall()
    monkeypatch.setenv("MULLIGAN_REDIS_URL", server.url)
    with Client(Settings(redis_url=server.url)) as client:
        yield client
    sys.modules.pop("parked_steps", None)


@contextmanager
def worker(server: ValkeyServer, folder: Path, path: Path | None = None) -> Iterator[None]:
    search = os.environ.get("PYTHONPATH", "")
    process = subprocess.Popen(
        [sys.executable, "-m", "mulligan.cli", "worker", "--threads", "2", "--drain", "1"],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": f"{path}{os.pathsep}{search}" if path else search,
            "MULLIGAN_REDIS_URL": server.url,
            "MULLIGAN_LEASE_MS": "400",
            "MULLIGAN_LEASE_MARGIN_MS": "100",
            "MULLIGAN_LOG_LEVEL": "error",
        },
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def test_a_task_that_kills_its_workers_is_parked_until_it_is_redriven(
    server: ValkeyServer, client: Client, tmp_path: Path
) -> None:
    """CON: `parked` (poison); UI: `redrive`."""
    (tmp_path / "parked_steps.py").write_text(
        "import os, signal\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
        "def only():\n"
        "    with (HERE / 'calls').open('a') as calls:\n"
        "        calls.write('call\\n')\n"
        "    if not (HERE / 'cured').exists():\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 'alive'\n"
    )
    (tmp_path / "flow.yaml").write_text(FLOW)
    run = client.enqueue(str(tmp_path / "flow.yaml"))
    with worker(server, tmp_path):
        state = client.wait(run, timeout_s=60)
        assert (state.status, state.reason) == ("paused", "parked")
        assert "lost again and again" in why(state)
        calls = (tmp_path / "calls").read_text().count("call")
        assert calls == 5, "five leases in a row were lost, no more"

        status = CliRunner().invoke(main, ["status", run])
        assert f"`mulligan redrive {run}`" in status.stdout

        (tmp_path / "cured").touch()
        shown = CliRunner().invoke(main, ["redrive", "--json"])
        assert json.loads(shown.stdout)["runs"] == [run]
        assert client.result(run, timeout_s=60) == "alive"
    assert problems(client.events(run)) == []
    again = CliRunner().invoke(main, ["redrive", run])
    assert again.exit_code == 2
    assert "nothing is parked" in again.output


def test_code_that_one_worker_lacks_is_left_to_others_and_parks_if_nobody_has_it(
    server: ValkeyServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON: a worker that lacks the code of a plan leaves it; it parks if nobody has it."""
    flows, code = tmp_path / "flows", tmp_path / "code"
    flows.mkdir()
    code.mkdir()
    (code / "parked_steps.py").write_text("def only():\n    return 'done'\n")
    (flows / "flow.yaml").write_text(FLOW)
    monkeypatch.syspath_prepend(str(code))
    with worker(server, flows):
        until(lambda: len(live_workers(client.store)) == 1)
        first = client.enqueue(str(flows / "flow.yaml"))
        state = client.wait(first, timeout_s=30)
        assert (state.status, state.reason) == ("paused", "parked")
        assert "parked_steps" in why(state)

        with worker(server, flows, path=code):
            until(lambda: len(live_workers(client.store)) == 2)
            client.redrive(first)
            assert client.result(first, timeout_s=30) == "done"
            for number in range(4):
                run = client.enqueue(str(flows / "flow.yaml"), run_id=f"next{number}")
                assert client.result(run, timeout_s=30) == "done"
                assert not any(isinstance(e.data, facts.RunPaused) for e in client.events(run))
            lacking = [card for card in live_workers(client.store) if card.lacks]
            assert len(lacking) == 1
