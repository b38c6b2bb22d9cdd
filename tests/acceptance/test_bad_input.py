"""
Bad input and unfit surroundings: each a clear message, its exit code, and nothing half written.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.errors import RunUnknown
from mulligan.events.keys import Keys
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess

pytestmark = pytest.mark.server

INPUT = ("--input", '{"topic": "tea"}')


def test_an_invalid_workflow_is_told_with_its_lines(desk: Any) -> None:
    desk.edit("needs: [collect, part]", "needs: [colect, part]")
    desk.edit('"my_tools:search"', '"my_tools:serch"')

    for verb in ("run", "enqueue"):
        ended = desk.mulligan(verb, "research.yaml", *INPUT)

        assert ended.returncode == 2
        lines = {int(part.split(":")[1]) for part in ended.stderr.split("research.yaml")[1:]}
        assert lines == {11, 26}, ended.stderr
        assert "did you mean 'collect'" in ended.stderr
        assert "did you mean 'search'" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert desk.untouched()
    assert desk.model.requests == []


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("nowhere/some-model", "no provider for the model 'nowhere/some-model'"),
        ("openai/gpt-4o", "set OPENAI_API_KEY"),
    ],
)
def test_a_model_that_can_not_be_asked_ends_it_before_anything_is_written(
    desk: Any, model: str, wanted: str
) -> None:
    ended = desk.mulligan("run", "research.yaml", *INPUT, "--model", model, OPENAI_API_KEY="")

    assert ended.returncode == 5
    assert wanted in ended.stderr
    assert desk.untouched()
    assert desk.model.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "research.yaml", *INPUT),
        ("enqueue", "research.yaml", *INPUT),
        ("status",),
        ("verify",),
        ("worker",),
        ("demo",),
    ],
)
def test_no_server(desk: Any, arguments: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = desk.mulligan(*arguments, MULLIGAN_REDIS_URL=f"redis://:secret@127.0.0.1:{port}/0")

    assert ended.returncode == 5, ended.stderr
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr


@pytest.mark.parametrize("arguments", [("run", "research.yaml", *INPUT), ("worker",), ("status",)])
def test_a_server_that_evicts(desk: Any, arguments: tuple[str, ...]) -> None:
    with desk.server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            ended = desk.mulligan(*arguments)
        finally:
            client.config_set("maxmemory-policy", "noeviction")

    assert ended.returncode == 5
    assert "CONFIG SET maxmemory-policy noeviction" in ended.stderr
    assert desk.untouched()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("status", "nobody"), "no run 'nobody'"),
        (("trace", "nobody"), "no run 'nobody'"),
        (("tail", "nobody"), "no run 'nobody'"),
        (("resume", "nobody"), "no run 'nobody'"),
        (("cancel", "nobody"), "no run 'nobody'"),
        (("verify", "nobody"), "no run 'nobody'"),
        (("usage", "nobody"), "no run 'nobody'"),
        (("recovery", "nobody"), "no run 'nobody'"),
        (("reconcile", "nobody", "a.1.1", "failed"), "no run 'nobody'"),
        (("run", "research.yaml", "--input", "{topic"), "neither a file nor JSON"),
        (
            ("run", "research.yaml"),
            "no input is given, and the prompt of 'collect' reads input.topic",
        ),
        (("run", "nothing.yaml"), "nothing.yaml"),
        (
            ("worker", "my_tools:join"),
            "my_tools:join: this is of the type function, not a mulligan.App",
        ),
        (("run", "research.yaml", *INPUT, "--run-id", "a b"), "a b"),
        (("run", "research.yaml", *INPUT, "--run-id", "a\x1b[31m"), "printable"),
        (("enqueue", "research.yaml", *INPUT, "--delay", "nan"), "no number of seconds"),
        (("enqueue", "research.yaml", *INPUT, "--delay", "1e18"), "is not in the range"),
        (("enqueue", "research.yaml", *INPUT, "--tag", ""), "can't be a tag"),
        (("enqueue", "research.yaml", *INPUT, "--tag", "x" * 201), "can't be a tag"),
        (("enqueue", "research.yaml", *INPUT, "--priority", "2"), "'-1', '0', '1'"),
        (("enqueue", "research.yaml", *INPUT, "--traceparent", "x"), "traceparent must be 00-"),
    ],
)
def test_what_can_not_be_used_is_said(desk: Any, arguments: tuple[str, ...], wanted: str) -> None:
    ended = desk.mulligan(*arguments)

    assert ended.returncode == 2, ended.stderr
    assert wanted in ended.stderr
    assert "Traceback" not in ended.stderr
    assert desk.untouched()


def test_a_run_that_no_worker_could_give_a_model_is_not_asked_for(desk: Any) -> None:
    desk.edit("model: scripted/any, ", "")
    ended = desk.mulligan("enqueue", "research.yaml", *INPUT)

    assert ended.returncode == 2, ended.stderr
    assert "no model is named: use --model PROVIDER/ID" in ended.stderr
    assert not ended.stdout


def test_no_model_is_named(desk: Any) -> None:
    desk.edit("model: scripted/any, ", "")
    ended = desk.mulligan("run", "research.yaml", *INPUT)

    assert ended.returncode == 5
    assert "no model is named: use --model PROVIDER/ID" in ended.stderr
    assert "MULLIGAN_MODEL" in ended.stderr
    assert desk.untouched()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_behind_standard_output(desk: Any) -> None:
    desk.mulligan("enqueue", "research.yaml", *INPUT)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "mulligan.cli", "list"],
            cwd=desk.folder,
            env={**os.environ, **desk.environment},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )

    assert ended.returncode == 5
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_run_id_that_another_input_has(desk: Any) -> None:
    first = desk.mulligan("enqueue", "research.yaml", *INPUT, "--run-id", "one")
    other = desk.mulligan("enqueue", "research.yaml", "--input", "{}", "--run-id", "one")

    assert (first.returncode, other.returncode) == (0, 2)
    assert "run 'one' exists with another input; choose another --run-id" in other.stderr
    assert desk.client.status("one").version == 1


def test_an_event_of_a_newer_version(desk: Any) -> None:
    """Nobody guesses what it means: not the commands, and not a worker, which leaves the run."""
    desk.mulligan("enqueue", "research.yaml", *INPUT, "--run-id", "one")
    key = Keys(0).run("one")
    with desk.server.client() as client:
        ((_, fields),) = client.xrange(key)
        newer = {
            name: value.replace(b"RunRequested", b"RunTeleported") for name, value in fields.items()
        }
        client.xadd(key, newer, id="2-0")
        client.hset(Keys(0).runs, "one", client.hget(Keys(0).runs, "one").replace(b"1", b"2", 1))

    for verb in ("status", "trace", "tail", "resume", "cancel"):
        ended = desk.mulligan(verb, "one")
        assert ended.returncode == 5, ended.stderr
        assert "unknown type 'RunTeleported'" in ended.stderr
        assert "upgrade" in ended.stderr
        assert "Traceback" not in ended.stderr
    verified = desk.mulligan("verify", "one")
    assert verified.returncode == 6, verified.stderr
    assert "unknown type 'RunTeleported'" in verified.stdout
    with WorkerProcess(desk.server.url, api_base=desk.model.url, folder=desk.folder) as worker:
        until(lambda: worker.logged("task_left"), 30.0, worker.log)
        assert "RunTeleported" in worker.logged("task_left")[0]["reason"]
        until(lambda: worker.alive, 30.0, worker.log)
    with desk.server.client() as client:
        assert client.xlen(key) == 2, "nothing was added to what could not be read"


# --- A full server -------------------------------------------------------------------------------


@pytest.fixture
def small() -> Iterator[ValkeyServer]:
    """A server that can be filled."""
    with ValkeyServer(maxmemory="32mb") as server:
        yield server


def fill(server: ValkeyServer) -> None:
    """Use up the server's memory but for a twentieth."""
    with server.client() as client:
        limit = 32 * 2**20
        while (free := 0.95 * limit - client.info("memory")["used_memory"]) > 0:
            client.set(f"ballast{free}", bytes(int(min(max(free, 4096), 2**20))))


def test_a_full_server_takes_no_new_run_and_what_has_begun_ends(
    desk: Any, small: ValkeyServer, tmp_path: Path
) -> None:
    desk.environment["MULLIGAN_REDIS_URL"] = small.url
    desk.edit("recovery_limit: 0", "recovery_limit: 0, backoff: 0.1")
    (desk.folder / "one.yaml").write_text(
        "name: one\nsettings: {model: scripted/any}\nnodes:\n"
        "  - {id: only, kind: agent, prompt: hello, output_schema: {type: object}}\n"
    )
    desk.model.play({"turns": [{"json": {"fine": True}, "delay_ms": 3_000}]})
    with (
        Client(Settings(redis_url=small.url, data_dir=tmp_path / "data")) as client,
        WorkerProcess(small.url, api_base=desk.model.url, folder=desk.folder) as worker,
    ):
        begun = client.enqueue(str(desk.folder / "one.yaml"))
        until(lambda: desk.model.requests, 30.0, worker.log)
        fill(small)

        for verb in ("run", "enqueue"):
            refused = desk.mulligan(verb, "one.yaml", "--run-id", "late")
            assert refused.returncode == 5, refused.stderr
            assert "maxmemory" in refused.stderr
            assert "raise maxmemory, or move the log to a larger server" in refused.stderr

        assert client.wait(begun, timeout_s=30).status == "completed"
        assert [name for name, _ in client.store.runs()] == [begun]
        with small.client() as raw:
            assert raw.zcard(Keys(0).due) == 0


def test_a_run_that_finds_the_server_full_goes_on_when_there_is_room(
    desk: Any, small: ValkeyServer, tmp_path: Path
) -> None:
    """Its next request is not begun while memory is short; nothing is lost by it."""
    turns = desk.script()
    turns[0]["delay_ms"] = 2_000
    desk.model.play({"turns": turns})
    with (
        Client(Settings(redis_url=small.url, data_dir=tmp_path / "data")) as client,
        WorkerProcess(small.url, api_base=desk.model.url, folder=desk.folder) as worker,
    ):
        run = client.enqueue(str(desk.flow), {"topic": "tea"})
        until(lambda: desk.model.requests, 30.0, worker.log)
        fill(small)
        until(lambda: worker.logged("append_repeated"), 30.0, worker.log)
        assert client.status(run).status == "running"
        with small.client() as raw:
            raw.config_set("maxmemory", "0")

        assert client.wait(run, timeout_s=30).status == "completed", worker.log()
        assert desk.searches() == ["tea"]
        assert len(desk.model.requests) == 6


def test_settings_that_can_not_be_used(desk: Any) -> None:
    ended = desk.mulligan("status", MULLIGAN_REDIS_URL="localhost:6379", MULLIGAN_LEASE_MS="soon")

    assert ended.returncode == 2
    assert "MULLIGAN_REDIS_URL must be a URL" in ended.stderr
    assert "MULLIGAN_LEASE_MS must be a whole number" in ended.stderr
    assert "localhost" not in ended.stderr, "an address may hold a password"
    assert json.dumps(ended.stdout) == '""'


def test_a_run_that_is_gone_from_its_server_is_not_waited_for(desk: Any) -> None:
    """As after a FLUSHALL: whoever waits is told, and does not wait for ever."""
    desk.mulligan("enqueue", "research.yaml", *INPUT, "--run-id", "gone")

    def lost(_: object) -> None:
        with desk.server.client() as client:
            client.flushall()

    with pytest.raises(RunUnknown):
        desk.client.wait("gone", timeout_s=10, seen=lost)


def test_a_result_that_is_no_json_is_named_by_its_option(desk: Any) -> None:
    refused = desk.mulligan("reconcile", "run", "call", "succeeded", "--result", "{no")

    assert refused.returncode == 2
    assert "--result: neither a file nor JSON" in refused.stderr
