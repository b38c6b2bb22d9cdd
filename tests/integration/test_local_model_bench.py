"""The report on the local model, with a scripted model in its place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess

BENCH = Path(__file__).parents[2] / "bench"
GOOD = {"label": "positive"}


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """`bench/local_model.py`, whose neighbours it finds as when it is run."""
    sys.path.insert(0, str(BENCH))
    yield import_module("local_model")
    sys.path.remove(str(BENCH))


@pytest.mark.server
def test_how_tasks_end(bench: Any, accounts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    by_id = {task.id: task for task in bench.tasks(100)}
    turns = [
        {"match": {"node": "classify_0"}, "text": '{"label": "posi', "finish_reason": "length"},
        {"match": {"node": "classify_0"}, "text": 'Well: {"label": "positive"}'},
        {"match": {"node": "classify_1"}, "times": "always", "text": "It is negative."},
    ]
    with (
        ScriptedModel(turns) as model,
        bench.Relay(model.url) as relay,
        ValkeyServer() as server,
        WorkerProcess(server.url) as worker,
        Client(Settings(redis_url=server.url)) as client,
    ):
        worker.until_working()
        done = bench.play(client, relay, by_id["classify_0"], "prompt")
        paused = bench.play(client, relay, by_id["classify_1"], "prompt")
        sent = len(model.requests)
    accounts.models.clear()  # asked by way of the relay, and counted here

    assert (done.end, done.attempts, done.requests) == ("completed", 2, 2)
    assert (done.finished, done.value, done.wrong) == (("length", "stop"), GOOD, ())
    # Each of its three attempts, and the overseer's call for each.
    assert (paused.end, paused.requests, paused.wrong) == ("paused: exhausted", 6, ())
    assert sent == done.requests + paused.requests
    assert bench.report([done, paused], 1.0)
    assert "wrong or hung: 0" in capsys.readouterr().out


def exchange(bench: Any, text: str, finish_reason: str) -> Any:
    chunk = {"choices": [{"delta": {"content": text}, "finish_reason": finish_reason}]}
    stream = b"data: " + bench.msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n"
    return bench.Exchange("classify_0", 200, bytearray(stream))


@pytest.mark.parametrize(
    ("said", "finish_reason", "alarms"),
    [
        ('{"label": "positive"}', "stop", 0),
        ('{"label": "positive"}', "length", 1),
        ('{"label": "neutral"}', "stop", 1),
    ],
)
def test_alarm_at_values_that_were_not_said_in_a_complete_response(
    bench: Any, said: str, finish_reason: str, alarms: int
) -> None:
    task = next(task for task in bench.tasks(100) if task.id == "classify_0")
    found = bench.wrong_value(GOOD, task, [exchange(bench, said, finish_reason)])
    assert alarms == len(found)
