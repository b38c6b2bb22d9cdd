"""UI-2: `mulligan doctor` says what is wrong and what to do; `mulligan down` stops the server."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from mulligan.actors.roster import Roster
from mulligan.cli import main
from mulligan.commands.published import published_text
from mulligan.embedded import ensure_server, running_server, stop_server
from mulligan.events.redis_store import RedisEventStore
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def data_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    for name in ("MULLIGAN_REDIS_URL", "MULLIGAN_BROKER_URL", "MULLIGAN_CRASH_AT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".mulligan"
    yield folder
    stop_server(folder)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def findings(code: int = 0) -> dict[str, dict[str, Any]]:
    """What doctor found, by matter (the last of each)."""
    result = call("doctor", "--json")
    assert result.exit_code == code, result.output
    told = json.loads(result.stdout)
    jsonschema.validate(told, json.loads(published_text("doctor")))
    assert told["fit"] is (code == 0)
    return {finding["matter"]: finding for finding in told["findings"]}


def test_before_the_first_run_all_is_well_and_nothing_is_started(data_dir: Path) -> None:
    found = findings()

    assert found["packages"]["state"] == "good"
    assert "starts it" in found["server"]["advice"]
    assert not data_dir.exists()


def test_a_running_embedded_server_is_looked_at(data_dir: Path) -> None:
    ensure_server(data_dir)

    found = findings()

    assert "Valkey" in found["server"]["detail"]
    assert found["memory"]["state"] == "good"
    assert found["projections"]["state"] == "good"
    assert found["queue"]["detail"].startswith("0 wake-ups")
    assert "mulligan worker" in found["workers"]["advice"]


def test_workers_that_live_are_shown_with_what_they_lack(data_dir: Path) -> None:
    store = RedisEventStore(ensure_server(data_dir))
    roster = Roster(store, app="shop:app")
    roster.announce()
    assert re.fullmatch(r"1 alive: \S+:\d+ \(shop:app\)", findings()["workers"]["detail"])

    roster.note("steps:join@abc", here=False)
    roster.announce()
    assert "steps:join" in findings()["workers"]["advice"]

    roster.leave()
    assert findings()["workers"]["detail"] == "none is alive"
    store.close()


def test_people_read_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", "redis://:hunter2@127.0.0.1:1/0")
    monkeypatch.setenv("MULLIGAN_REDISURL", "misspelled")

    result = call("doctor")

    assert result.exit_code == 5
    assert "BAD   server" in result.output
    assert "MULLIGAN_REDIS_URL" in result.output
    assert "MULLIGAN_REDISURL means nothing" in result.output
    assert "hunter2" not in result.output


def test_a_server_that_evicts_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    with ValkeyServer(maxmemory_policy="allkeys-lru") as server:
        monkeypatch.setenv("MULLIGAN_REDIS_URL", server.url)

        found = findings(code=5)

    assert found["server"]["state"] == "bad"
    assert "noeviction" in found["server"]["detail"]


def test_a_server_that_is_nearly_full_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    with ValkeyServer(maxmemory="8mb") as server:
        with server.client() as client:
            while client.info("memory")["used_memory"] < 0.92 * 8 * 2**20:
                client.append("ballast", "x" * 50_000)
        monkeypatch.setenv("MULLIGAN_REDIS_URL", server.url)

        found = findings(code=5)

    assert found["memory"]["state"] == "bad"
    assert "maxmemory" in found["memory"]["advice"]


@pytest.fixture(scope="module")
def kept() -> Iterator[ValkeyServer]:
    """A server with an append-only file."""
    with ValkeyServer(appendonly="yes", maxmemory="100mb") as server:
        yield server


@pytest.mark.parametrize(
    ("settings", "loss", "told", "advice"),
    [
        ({"appendfsync": "always"}, "nothing", "every acknowledged event survives", None),
        ({"appendfsync": "everysec"}, "seconds", "last one or two seconds", "appendfsync always"),
        ({"appendfsync": "no"}, "unbounded", "half a minute", "appendfsync always"),
        (
            {"appendfsync": "always", "no-appendfsync-on-rewrite": "yes"},
            "seconds",
            "while the append-only file is written anew",
            "no-appendfsync-on-rewrite no",
        ),
        ({"appendonly": "no"}, "unbounded", "no append-only file", "appendonly yes"),
    ],
)
def test_the_guarantee_against_power_loss_that_holds_here_is_told(
    kept: ValkeyServer,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    loss: str,
    told: str,
    advice: str | None,
) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", kept.url)
    defaults = {"appendonly": "yes", "appendfsync": "everysec", "no-appendfsync-on-rewrite": "no"}
    with kept.client() as client:
        for name, value in (defaults | settings).items():
            client.config_set(name, value)

    found = findings()

    durability = found["durability"]
    assert durability["durability"]["power_loss"] == loss
    assert told in durability["detail"]
    assert (advice in durability["advice"]) if advice else durability["advice"] is None
    assert durability["state"] == ("good" if loss == "nothing" else "note")
    assert "persistence" not in found, "it is told once"
    # A server that was asked is believed only as far as it was seen to wait.
    asked = settings.get("appendfsync") == "everysec"
    waits = durability["durability"]["waitaof"]
    assert waits in ((True, False, None) if asked else (None,))
    assert ("WAITAOF" in durability["detail"]) is asked


def test_a_replica_that_follows_is_told(
    kept: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", kept.url)
    with kept.client() as client:
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "always")
        client.config_set("no-appendfsync-on-rewrite", "no")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        client.config_set("port", port)
        with ValkeyServer() as replica, replica.client() as its:
            its.execute_command("REPLICAOF", "127.0.0.1", port)
            until(lambda: client.info("replication")["connected_slaves"], 20.0)
            durability = findings()["durability"]
        client.config_set("port", 0)

    assert (durability["state"], durability["durability"]["replicas"]) == ("note", 1)
    assert "a failover may lose acknowledged events" in durability["detail"]


def test_a_queue_that_is_away_is_bad(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_server(data_dir)
    monkeypatch.setenv("MULLIGAN_BROKER_URL", "redis://:hunter2@127.0.0.1:1")

    found = findings(code=5)

    assert found["queue"]["state"] == "bad"
    assert "MULLIGAN_BROKER_URL" in found["queue"]["advice"]
    assert "hunter2" not in str(found)


def test_armed_crash_points_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_CRASH_AT", "tool.after:kill")

    assert "MULLIGAN_CRASH_AT" in findings()["settings"]["detail"]


def test_bad_settings_end_with_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_LEASE_MS", "ten")

    result = call("doctor")

    assert result.exit_code == 2
    assert "MULLIGAN_LEASE_MS must be a whole number" in result.output


def test_down_stops_the_server_and_says_so(data_dir: Path) -> None:
    ensure_server(data_dir)

    first, second = call("down"), call("down", "--json")

    assert first.exit_code == second.exit_code == 0
    assert first.output.startswith("stopped the embedded server")
    assert json.loads(second.stdout)["stopped"] is False
    assert running_server(data_dir) is None
