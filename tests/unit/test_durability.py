"""What is believed of a server that says it has synced (no server here)."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from mulligan.events import redis_durability
from mulligan.events.redis_durability import ROUNDS, durability_of, sync


class Server:
    """Answers as a server with `appendfsync everysec` does; a WAITAOF takes `rounds_s` each."""

    def __init__(self, *rounds_s: float, refuses: bool = False, synced: int = 1) -> None:
        self.now_s = 100.0
        self.connection = 1
        self.sent: list[tuple[Any, ...]] = []
        self._rounds_s = list(rounds_s)
        self._refuses = refuses
        self._synced = synced

    def info(self) -> dict[str, Any]:
        return {"aof_enabled": 1, "role": "master", "connected_slaves": 0}

    def config_get(self, name: str) -> dict[str, str]:
        return {"appendfsync": "everysec"} if name == "appendfsync" else {}

    def execute_command(self, *words: Any) -> Any:
        self.sent.append(words)
        if words[0] == "CLIENT":
            return self.connection
        if words[0] == "WAITAOF":
            if self._refuses:
                raise ResponseError("unknown command 'WAITAOF'")
            self.now_s += self._rounds_s.pop(0)
            return [self._synced, 0]
        return b"OK"


def seen(server: Server, monkeypatch: pytest.MonkeyPatch) -> tuple[bool | None, str]:
    monkeypatch.setattr(redis_durability, "monotonic", lambda: server.now_s)
    found = durability_of(server, probe=True)  # type: ignore[arg-type]
    assert found.power_loss == "seconds"
    assert found.seen is not None
    return found.waitaof, found.seen


@pytest.mark.parametrize("rounds_s", [(0.9, 1.0, 1.0), (0.0, 1.0, 1.0), (0.2, 0.8, 0.8)])
def test_a_waitaof_that_takes_its_second_each_time_is_believed(
    monkeypatch: pytest.MonkeyPatch, rounds_s: tuple[float, ...]
) -> None:
    waits, told = seen(Server(*rounds_s), monkeypatch)

    assert waits is True
    assert f"{sum(rounds_s):.3f} s" in told


@pytest.mark.parametrize("rounds_s", [(0.0001, 0.0001, 0.0001), (0.001, 0.9, 0.02)])
def test_one_that_comes_back_at_once_is_not_even_if_it_waited_by_chance(
    monkeypatch: pytest.MonkeyPatch, rounds_s: tuple[float, ...]
) -> None:
    assert seen(Server(*rounds_s), monkeypatch)[0] is False


def test_one_that_runs_out_of_time_has_synced_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(Server(3.0, 3.0, 3.0, synced=0), monkeypatch)[0] is False


def test_a_server_without_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, told = seen(Server(refuses=True), monkeypatch)

    assert waits is None
    assert "no WAITAOF" in told


def test_nothing_is_written_unless_it_is_probed() -> None:
    server = Server()

    assert durability_of(server).waitaof is None  # type: ignore[arg-type]
    assert server.sent == []


def test_a_write_stands_before_each_waitaof_and_a_connection_that_changed_proves_nothing() -> None:
    server = Server(*[0.0] * (ROUNDS + 1))

    assert sync(server, 1_000)  # type: ignore[arg-type]
    assert [words[0] for words in server.sent] == ["CLIENT", "SET", "WAITAOF", "CLIENT"]

    class Reconnects(Server):
        def execute_command(self, *words: Any) -> Any:
            self.connection += 1
            return super().execute_command(*words)

    assert not sync(Reconnects(0.0), 1_000)  # type: ignore[arg-type]
