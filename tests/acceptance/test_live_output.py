"""Live output of `run` and `tail`: shown to who asks for it, and kept nowhere (issue 5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mulligan.commands.published import published_text
from mulligan.events.redis_connection import connect
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

FLOW = """\
name: poem
settings: {model: scripted/any, recovery_limit: 1}
nodes:
  - id: write
    kind: agent
    prompt: Write.
    output_schema: {type: object, properties: {poem: {type: string}}, required: [poem]}
"""
CUT = {"json": {"poem": "canary-cut"}, "chunks": 5, "finish_reason": "length"}
GOOD = {"json": {"poem": "canary-good"}, "chunks": 5}


@pytest.fixture
def poem(desk: Any) -> Any:
    desk.flow.write_text(FLOW)
    desk.model.play({"turns": [CUT, GOOD]})
    return desk


def contents(url: str) -> str:
    """Everything that the server holds."""
    with connect(url) as client:
        keys = client.keys("*")
        return repr([(key, client.dump(key)) for key in keys]) + repr(
            [_read(client, key) for key in keys]
        )


def _read(client: Any, key: bytes) -> Any:
    match client.type(key):
        case b"stream":
            return client.xrange(key)
        case b"hash":
            return client.hgetall(key)
        case b"string":
            return client.get(key)
        case b"list":
            return client.lrange(key, 0, -1)
        case _:
            return None


def test_run_shows_what_is_said_and_takes_back_what_was_cut(poem: Any) -> None:
    ended = poem.mulligan("run", "research.yaml", "--run-id", "one", "--deltas")

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"poem": "canary-good"}
    lines = ended.stderr.splitlines()
    first = [line for line in lines if "write attempt 1 (write#1): " in line]
    second = [line for line in lines if "write attempt 2 (write#2): " in line]
    assert "canary-cut" in "".join(line.partition("): ")[2] for line in first)
    assert "canary-good" in "".join(line.partition("): ")[2] for line in second)
    (void,) = [line for line in lines if "write attempt 1 (write#1) is void (length)" in line]
    assert "attempt 2 follows" in void
    assert lines.index(first[-1]) < lines.index(void) < lines.index(second[0])


def test_nothing_of_it_is_stored(poem: Any) -> None:
    """OVR-10: whoever watches, the log and every key are the same."""
    assert poem.mulligan("run", "research.yaml", "--deltas").returncode == 0

    assert "canary-good" in contents(poem.server.url)
    assert "canary-cut" not in contents(poem.server.url)


def test_who_does_not_ask_for_it_is_shown_nothing(poem: Any) -> None:
    ended = poem.mulligan("run", "research.yaml", "--run-id", "one")

    assert ended.returncode == 0
    assert "canary" not in ended.stderr
    assert "canary-cut" not in ended.stdout
    told = poem.mulligan("tail", "one", "--follow").stdout
    assert "canary-cut" not in told
    assert "delta" not in {json.loads(line)["type"] for line in told.splitlines()}


def test_run_shows_what_others_meanwhile_are_not_to_move_a_terminal_by(poem: Any) -> None:
    turn = {"text": "\x1b[2J canary", "finish_reason": "length"}
    poem.model.play({"turns": [turn, GOOD]})
    ended = poem.mulligan("run", "research.yaml", "--deltas")
    assert "\\x1b[2J canary" in ended.stderr
    assert "\x1b" not in ended.stderr


@contextmanager
def tailing(desk: Any, told: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with told.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mulligan.cli", "tail", *arguments],
            env=os.environ | desk.environment,
            cwd=desk.folder,
            stdout=out,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_tail_has_deltas_between_the_events_and_void_lines(poem: Any, tmp_path: Path) -> None:
    """By the published schemas; the run is worked by another process."""
    told = tmp_path / "told.jsonl"
    poem.mulligan("enqueue", "research.yaml", "--run-id", "one")
    with tailing(poem, told, "one", "--follow", "--deltas") as tail:
        until(lambda: "RunRequested" in told.read_text(), 30.0, told.read_text)
        assert poem.mulligan("run", "research.yaml", "--run-id", "one").returncode == 0
        assert tail.wait(20) == 0

    lines = [json.loads(line) for line in told.read_text().splitlines()]
    schemas = {name: json.loads(published_text(name)) for name in ("delta", "void", "event")}
    for line in lines:
        jsonschema.validate(line, schemas.get(line["type"], schemas["event"]))
    assert _told(lines) == [
        "ModelRequested 1",
        'delta 1 {"output":{"poem":"canary-cut"},"assistant_message":null}',
        "ModelAnswered 1",
        "void 1 2",
        "AllowanceReserved 1",
        "ModelRequested 2",
        'delta 2 {"output":{"poem":"canary-good"},"assistant_message":null}',
        "ModelAnswered 2",
        "OutputAccepted 2",
    ]


def _told(lines: list[dict[str, Any]]) -> list[str]:
    """The lines about the model, in words; the deltas of a response together."""
    words: list[str] = []
    for line in lines:
        label = f"{line['type']} {line['attempt']}"
        if line["type"] == "delta":
            if words[-1].startswith(label):
                words[-1] += line["text"]
            else:
                words.append(f"{label} {line['text']}")
        elif line["type"] == "void":
            words.append(f"{label} {line['next_attempt']}")
        elif line["type"].startswith(("Model", "Allowance", "Output")):
            words.append(label)
    return words


def test_tail_refuses_deltas_of_all_runs_and_of_the_past(poem: Any) -> None:
    for arguments in (["--deltas"], ["--deltas", "--follow"], ["one", "--deltas"]):
        refused = poem.mulligan("tail", *arguments)
        assert refused.returncode == 2
        assert "tail RUN --follow --deltas" in refused.stderr
