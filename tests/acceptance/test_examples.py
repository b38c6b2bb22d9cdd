"""The examples do what they say (a server, and a worker in this process)."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def client(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with server.client() as connection:
        connection.flushall()
    monkeypatch.setenv("MULLIGAN_REDIS_URL", server.url)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    settings = Settings(redis_url=server.url)
    runtime = assemble(settings)
    with Client(settings) as client, working(runtime, threads=2, drain_s=2):
        yield client
    runtime.close()


def test_the_cron_producer_asks_once_a_day_however_often_it_is_started(client: Client) -> None:
    def start() -> str:
        ended = subprocess.run(
            [sys.executable, str(EXAMPLES / "cron_producer.py")],
            capture_output=True,
            text=True,
            timeout=60,
            env=dict(os.environ),
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    before = datetime.now(UTC).date()
    runs = [start(), start()]
    if datetime.now(UTC).date() == before:  # not over midnight
        assert len(set(runs)) == 1
    assert client.result(runs[0], timeout_s=30)["greeting"].startswith("Hello, ")
    assert client.status(runs[0]).tags == ("daily",)


def test_the_cron_producer_says_what_is_wrong(client: Client) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "cron_producer.py")],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"MULLIGAN_REDIS_URL": "redis://127.0.0.1:1"},
    )
    assert ended.returncode == 5
    assert "no connection" in ended.stderr


def test_the_web_producer_takes_an_order_once(client: Client) -> None:
    pytest.importorskip("fastapi")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the test client, about its own future
        from starlette.testclient import TestClient

        app = importlib.import_module("web_producer").app
    with TestClient(app) as web:
        first = web.put("/greetings/7", json={"name": "Ada"})
        assert (first.status_code, first.json()) == (202, {"run": "greeting-7"})
        assert web.put("/greetings/7", json={"name": "Ada"}).status_code == 202
        assert web.put("/greetings/7", json={"name": "Bob"}).status_code == 409
        assert web.get("/greetings/8").status_code == 404
        assert web.put("/greetings/UPPER", json={"name": "Ada"}).status_code == 422

        assert client.result("greeting-7", timeout_s=30) == {"greeting": "Hello, Ada!"}
        assert web.get("/greetings/7").json() == {
            "status": "completed",
            "result": {"greeting": "Hello, Ada!"},
        }
    assert [run for run, _ in client.store.runs()] == ["greeting-7"]
