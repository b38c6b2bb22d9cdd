"""
Random worlds on a real server (testing/worlds.py): every run ends; every intent, completion and
outcome is there once. And the worlds themselves are tried: faults planted in the scripts are found.

`MULLIGAN_WORLDS=10000 pytest tests/faults/test_random_worlds.py` plays as many as it names.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from redis import Redis

from mulligan.events import redis_scripts
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worlds import Weather, play

pytestmark = [pytest.mark.server, pytest.mark.timeout(3_600)]

WORLDS = int(os.environ.get("MULLIGAN_WORLDS", "100"))
FIRST_SEED = int(os.environ.get("MULLIGAN_FIRST_SEED", "0"))
SEARCHED_FOR_A_FAULT = 600

MISHAPS = {
    "message lost",
    "message doubled",
    "no answer",
    "person repeated",
    "server set back",
    "killed: claimed",
    "killed: loaded",
    "killed: recorded",
    "killed: intent recorded",
    "killed: effect done",
    "timer fired",
    "run RunCompleted",
    "run RunCancelled",
}


@pytest.fixture
def client(server: ValkeyServer) -> Iterator[Redis]:
    with server.client() as client:
        yield client
        client.flushall()


def test_every_world_ends_with_everything_there_once(client: Redis) -> None:
    """REC-33 for the log."""
    happened: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + WORLDS):
        outcome = play(client, seed)
        assert [] == outcome.problems, f"world {seed}"
        happened += outcome.happened
    print(f"{WORLDS} worlds: {dict(sorted(happened.items()))}")

    assert set(happened) >= MISHAPS  # or the worlds would be too kind to show anything


def test_a_world_is_the_same_each_time(client: Redis) -> None:
    """A seed that failed can be played again."""
    assert play(client, 5).happened == play(client, 5).happened


# --- Planted faults ------------------------------------------------------------------------------

PLANTED: dict[str, list[tuple[str, str, str]]] = {
    "no inbox check": [("append", "own.inbox ~= inbox_read and", "false and")],
    "no fence": [
        ("append", "if not own or token == '' or own.token ~= token then", "if not own then"),
        ("append", "if own.op ~= previous_op then", "if false then"),
    ],
    "a sweep that only pushes scores": [
        ("sweep", "if string.sub(record, 1, 1) ~= READY then", "if false then")
    ],
    "facts that are not known again": [("append", "if fact_op(row) == op then", "if false then")],
    "only the last fact known again": [
        ("append", "FACT_KEYS_KEPT = 100", "FACT_KEYS_KEPT = 1"),
    ],
    "timers that any message ends": [
        ("claim", "if state ~= READY and not_yet then return { 'EARLY' } end", "")
    ],
    "renewal under any token": [("renew", "holder ~= token", "false")],
    "a wake that counts nothing": [("append", "record.inbox = record.inbox + 1", "")],
    "claims that are never forgiven": [
        (
            "append",
            "record.state, record.token, record.claims = state, '', 0",
            "record.state, record.token = state, ''",
        ),
    ],
}


RARE = {
    "no inbox check",
    "only the last fact known again",
    "renewal under any token",
    "a wake that counts nothing",
}
"""What takes some hundred worlds to show."""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[pytest.mark.exhaustive] if fault in RARE else [])
        for fault in PLANTED
    ],
)
def test_a_planted_fault_is_found(
    client: Redis, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    texts = {name: redis_scripts.source(name) for name in ("append", "claim", "renew", "sweep")}
    for name, rule, broken in PLANTED[fault]:
        assert rule in texts[name], "the script has changed: plant the fault anew"
        texts[name] = texts[name].replace(rule, broken)
    original = redis_scripts.source
    monkeypatch.setattr(redis_scripts, "source", lambda name: texts.get(name) or original(name))

    assert first_failing(client, Weather()), fault


@pytest.mark.exhaustive
def test_tokens_that_a_restored_server_hands_out_again_are_found(client: Redis) -> None:
    """Counters instead of random tokens, and a server that was restored from an older file."""
    weather = Weather(set_back=1.0, cancelled_runs=0.0)

    assert first_failing(client, weather, worlds=120) is None  # with random tokens all is well
    assert first_failing(client, Weather(set_back=1.0, cancelled_runs=0.0, counted_tokens=True))


def first_failing(
    client: Redis, weather: Weather, worlds: int = SEARCHED_FOR_A_FAULT
) -> list[str] | None:
    """What is wrong with the first world that something is wrong with."""
    for seed in range(worlds):
        outcome = play(client, seed, weather)
        if outcome.problems:
            print(f"world {seed}: {outcome.problems}")
            return outcome.problems
    return None
