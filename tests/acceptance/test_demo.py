"""
`mulligan demo`: a worker is killed between a completed tool and the next request, and another one
goes on where the log ends.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.commands.demo import LEASE_MS

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

    assert "shows 1 call: search tea." in shown.stdout
    assert "The history is sound." in shown.stdout
    (record,) = (folder / ".mulligan" / "demo").glob("calls-*.txt")
    assert record.read_text() == "search tea\n", "the tool ran once"
    died = [json.loads(line) for line in shown.stderr.splitlines() if '"worker_died"' in line]
    assert [one["cause"] for one in died] == ["SIGKILL"]

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

    told = command("trace", run[1], folder=folder).stdout
    assert "collect.1.1: execution 1 begins" in told
    assert "execution 2" not in told
    assert "collect#2: its worker was lost before it was answered" in told
    assert "skipped: its condition is false" in told
    assert "agent sceptic called" in told
    assert command("verify", run[1], folder=folder).returncode == 0


def _events(tail: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The events that `tail` printed, with their server times in milliseconds."""
    events: list[dict[str, Any]] = [json.loads(line) for line in tail.stdout.splitlines()]
    for event in events:
        hours, minutes, seconds = event["time"].partition("T")[2].rstrip("Z").split(":")
        event["time_ms"] = round(1_000 * (float(seconds) + 60 * (60 * int(hours) + int(minutes))))
    return events
