"""
`mulligan demo`: a worker is killed between a completed tool and the next request, and another one
goes on where the log ends.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.commands.demo import LEASE_MS
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path, command: Command) -> Iterator[Path]:
    """A folder whose embedded server ends with the test."""
    yield tmp_path
    assert command("down", folder=tmp_path).returncode == 0


def test_the_demo_shows_a_run_that_outlives_its_worker(folder: Path, command: Command) -> None:
    shown = command("demo", folder=folder)
    assert shown.returncode == 0, shown.stderr
    run = re.search(r"^(demo-\w+)  demo  completed in", shown.stdout, re.MULTILINE)
    assert run is not None, shown.stdout

    assert f"`mulligan serve`, then http://127.0.0.1:8810/#/runs/{run[1]}\n" in shown.stdout
    assert "shows 1 call: search tea." in shown.stdout
    assert "The history is sound." in shown.stdout
    assert "sent again: 1\n" in shown.stdout
    assert "asked for again: 2\n" in shown.stdout
    assert "put into form: 1\n" in shown.stdout
    assert "Tea was drunk in China before it came to Europe." in shown.stdout
    log = shown.stdout[shown.stdout.index("polish  passed") :]
    assert "before repair: failed, overall score 75" in log
    assert re.search(r"^1 +1 +plain +75 +100 +passed +\$0\.0002", log, re.MULTILINE), log
    assert "edit line 1: 'It is worth noting that tea' → 'Tea'" in log
    (record,) = (folder / ".mulligan" / "demo").glob("calls-*.txt")
    assert record.read_text() == "search tea\n", "the tool ran once"
    lines = shown.stderr.splitlines()
    assert [] == [line for line in lines if "{" in line.partition(" ")[0]], "a line for programs"
    assert 1 == sum("that worker was killed" in line for line in lines)

    events = _events(command("tail", run[1], folder=folder))
    types = [event["type"] for event in events]
    lost = types.index("ModelInterrupted")
    assert types[lost - 2 : lost + 2] == [
        "ToolSucceeded",
        "ModelRequested",
        "ModelInterrupted",
        "ModelRequested",
    ]
    # The kill comes right after the request's intent, so that its time is when the worker died.
    silent_ms = events[lost]["time_ms"] - events[lost - 1]["time_ms"]
    # Where a process takes longer to start than a lease lasts, its replacement does too.
    start_ms = events[types.index("RunStarted")]["time_ms"] - events[0]["time_ms"]
    assert 0 < silent_ms <= max(LEASE_MS, start_ms) + 1_000
    assert types.count("ToolStarted") == 1
    reserved = [one["data"]["reason"] for one in events if one["type"] == "AllowanceReserved"]
    assert sorted(reserved) == ["length", "schema_violation"], "the model misbehaved, and not twice"

    repairs = [one["type"] for one in events if one["type"].startswith("OutputRepair")]
    assert [repairs.count(f"OutputRepair{end}") for end in ("Succeeded", "Failed")] == [1, 1]

    told = command("trace", run[1], folder=folder).stdout
    assert "collect.1.1: execution 1 begins" in told
    assert "execution 2" not in told
    assert "collect#2: its worker was lost before it was answered" in told
    assert "skipped: its condition is false" in told
    assert "agent sceptic called" in told
    assert command("verify", run[1], folder=folder).returncode == 0


def test_the_demo_leaves_other_runs_their_own_model(desk: Any) -> None:
    """Its worker takes up whatever is due; only the demo's run asks the demo's model."""
    other = desk.mulligan("enqueue", "research.yaml", "--input", '{"topic": "tea"}').stdout.strip()

    ended = desk.mulligan("demo")

    assert ended.returncode == 0, ended.stderr
    assert desk.model.requests, "the other run was worked by the demo's worker"
    assert desk.client.status(other).status != "failed", desk.client.status(other).failure


def test_an_interrupted_demo_ends_its_run_and_its_worker(desk: Any, tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    with told.open("w") as err:
        demo = subprocess.Popen(
            [sys.executable, "-m", "mulligan.cli", "demo"],
            cwd=desk.folder,
            env={**os.environ, **desk.environment},
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
    until(lambda: "ToolSucceeded" in told.read_text(), 30.0, told.read_text)

    demo.send_signal(signal.SIGINT)

    assert demo.wait(40) == 130
    assert told.read_text().endswith("mulligan: interrupted\n")
    listed = json.loads(desk.mulligan("list", "--json").stdout)["runs"]
    assert [row["status"] for row in listed] == ["cancelled"]


def _events(tail: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The events that `tail` printed, with their server times in milliseconds."""
    events: list[dict[str, Any]] = [json.loads(line) for line in tail.stdout.splitlines()]
    for event in events:
        hours, minutes, seconds = event["time"].partition("T")[2].rstrip("Z").split(":")
        event["time_ms"] = round(1_000 * (float(seconds) + 60 * (60 * int(hours) + int(minutes))))
    return events
