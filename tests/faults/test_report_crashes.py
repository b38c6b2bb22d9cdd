"""
rept1: a report's run whose worker is killed after each stage goes on at the first stage that has no
result, and comes to the same report; rept3: so it does while it waits for an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.projections.history import problems
from mulligan.projections.state import RunState
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.week_report import GOOD, INPUT, WEEK, script

pytestmark = pytest.mark.server

STATEMENTS = [*GOOD, {"text": "The label printer was replaced.", "evidence": ["e3"]}]
STAGES = [
    *("request", "parsed", "scope", "collected", "evidence"),
    *("reconciled", "composed", "verified", "delivered"),
]
ENDS = [
    ("request", "model.before"),
    ("parsed", "function.before"),
    ("scope", "model.before"),
    ("collected", "function.before"),
    ("evidence", "function.before:2"),
    ("reconciled", "model.before"),
    ("composed", "gates.before"),
    ("verified", "function.before"),
    ("verified", "function.after"),
]
"""
The last stage with a result when a worker dies, and where that is: the next stage's intent is in
the log. The last worker dies with its report written and nothing of that in the log.
"""
FILES = ("summary.md", "coverage.json", "sources.json")


class Office:
    """A log, a model, and workers that die on order."""

    def __init__(self, url: str, folder: Path, forked: Callable[..., Any]) -> None:
        self.url, self.folder, self._forked = url, folder, forked
        self.model = ScriptedModel({"turns": script(INPUT, STATEMENTS)}).start()
        self.client = Client(Settings(redis_url=url, data_dir=folder, api_base=self.model.url))

    def worker(self, crash_at: str = "") -> Any:
        return self._forked(
            {
                "MULLIGAN_REDIS_URL": self.url,
                "MULLIGAN_API_BASE": self.model.url,
                "MULLIGAN_DATA_DIR": str(self.folder),
                "MULLIGAN_LEASE_MS": "600",
                "MULLIGAN_LEASE_MARGIN_MS": "150",
                "MULLIGAN_CRASH_AT": f"{crash_at}:kill" if crash_at else "",
            }
        )

    def enqueue(self, run: str) -> None:
        self.client.enqueue("report", INPUT, run_id=run, model="scripted/any")

    def answer(self, run: str) -> None:
        assert "awaiting_input" == self.client.wait(run, timeout_s=30).reason
        self.client.answer(run, {"m3": {"option": "Bert"}})

    def results(self, run: str) -> dict[str, str]:
        """The digests of what the stages have come to so far, in order."""
        nodes = self.client.status(run).nodes
        ended = [nodes[name] for name in STAGES if name in nodes]
        return {one.id: one.output.digest for one in ended if one.output is not None}

    def files(self, run: str) -> dict[str, bytes]:
        folder = self.folder / "reports" / "weekly" / WEEK / run
        assert ["r01"] == [one.name for one in folder.iterdir()]
        return {name: (folder / "r01" / name).read_bytes() for name in FILES}

    def close(self) -> None:
        self.client.close()
        self.model.stop()


@pytest.fixture
def office(server: ValkeyServer, tmp_path: Path, forked: Callable[..., Any]) -> Any:
    with server.client() as client:
        client.flushall()
    made = Office(server.url, tmp_path, forked)
    yield made
    made.close()


def test_a_report_goes_on_at_the_first_stage_without_a_result(office: Office) -> None:
    office.enqueue("killed")
    before: dict[str, str] = {}
    for last, point in ENDS:
        worker = office.worker(point)
        if last == "reconciled":
            office.answer("killed")
        until(lambda: not worker.alive, 30.0, worker.log)  # noqa: B023 - read in this turn
        done = office.results("killed")
        assert STAGES[: STAGES.index(last) + 1] == list(done), f"{point} after {last}"
        assert before.items() <= done.items()
        before = done
    office.worker()
    state = office.client.wait("killed", timeout_s=30)

    assert "completed" == state.status, state.failure
    asked = Counter(one.headers["x-mulligan-node"] for one in office.model.requests)
    assert {"parsed": 2, "composed": 1, **{f"collected[{n}]": 1 for n in range(4)}} == asked
    assert_each_stage_once(office, state)
    office.enqueue("calm")
    office.answer("calm")
    assert "completed" == office.client.wait("calm", timeout_s=30).status
    assert office.files("calm") == office.files("killed")


def assert_each_stage_once(office: Office, state: RunState) -> None:
    """Nothing of a stage is begun once it has its result."""
    events = list(office.client.events("killed"))
    ended: set[str] = set()
    for event in events:
        assert not (event.type == "NodeStarted" and event.node in ended), event
        if event.type == "NodeCompleted":
            ended.add(event.node or "")
    assert [] == list(problems(events))
    assert {"r01"} == {state_file.parent.name for state_file in office.folder.rglob("package.json")}
