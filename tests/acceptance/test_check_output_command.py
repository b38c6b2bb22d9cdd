"""
`mulligan check-output` as a process (contracts: check-output, exit codes).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mulligan.schemas

PUBLISHED = json.loads(
    (Path(mulligan.schemas.__path__[0]) / "json" / "check-output.schema.json").read_text("utf-8")
)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def run(*options: str, given: str | bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "mulligan.cli", "check-output", *options],
        input=given if isinstance(given, bytes) else given.encode(),
        capture_output=True,
        timeout=60,
    )


def printed(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        jsonschema.validate(line, PUBLISHED)
    return lines


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "city.json"
    file.write_text(json.dumps(CITY), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "options", "exit_code", "verdict", "output"),
    [
        ('{"city": "Bern"}', (), 0, "completed", {"city": "Bern"}),
        ('```json\n{"city": "Bern",}\n```', ("--mode", "prompt"), 0, "completed", {"city": "Bern"}),
        ('{"city": "Ber', (), 1, "truncated", None),
        ('{"city": "Bern"}', ("--finish-reason", "length"), 1, "truncated", None),
        ('{"city": "Bern"}', ("--no-terminal",), 1, "truncated", None),
        ('{"city": "Bern"}', ("--finish-reason", "content_filter"), 1, "refused", None),
        ('{"city": Bern}', ("--json",), 1, "invalid_json", None),
        ('{"answer": {"city": "Bern"}}', (), 1, "wrong_envelope", None),
        ('{"city": 5}', (), 1, "schema_violation", None),
    ],
)
def test_one_candidate(
    schema: str, text: str, options: tuple[str, ...], exit_code: int, verdict: str, output: Any
) -> None:
    done = run("--schema", schema, *options, given=text)

    (line,) = printed(done)
    assert (exit_code, verdict, output) == (done.returncode, line["verdict"], line["output"])
    assert ("--json" in options or verdict == "completed") == (done.stderr == b"")


def test_many_candidates_are_answered_line_by_line() -> None:
    given = [
        {"id": "a", "raw": '{"city": "Bern"}', "schema": CITY},
        {"id": 2, "raw": "[1, 2]"},
        {"id": "cap", "raw": "{}", "usage": {"completion_tokens": 8, "x": 1}, "max_tokens": 8},
        {"id": "eof", "raw": "{}", "finish_reason": None},
        {"id": "local", "raw": "{}", "finish_reason": None, "terminal": True},
        {"id": "half", "raw": '{"a": "\ud83d"}', "mode": "prompt", "more": 1},
        {"id": "big", "raw": '{"n": 2512292042121000001234}'},
    ]
    done = run("--jsonl", given="\n".join(map(json.dumps, given)) + "\n\n")

    assert 0 == done.returncode
    assert [
        ("a", "completed", {"city": "Bern"}),
        (2, "completed", [1, 2]),
        ("cap", "truncated", None),
        ("eof", "truncated", None),
        ("local", "completed", {}),
        ("half", "invalid_json", None),
        ("big", "completed", {"n": 2512292042121000001234}),
    ] == [(line["id"], line["verdict"], line["output"]) for line in printed(done)]


@pytest.mark.parametrize(
    ("options", "given", "said"),
    [
        (("--schema", "gone.json"), "{}", ("gone.json", "No such file")),
        (("--jsonl",), '{"id": 1, "raw": "{}"}\n{"id": 2}', ("line 2", "raw", "a line is")),
        (("--jsonl",), '{"id": 1, "raw": "{}"', ("line 1", "a line is")),
        (("--jsonl",), '{"id": 1, "raw": "{}", "schema": {"type": 5}}', ("line 1", "/type")),
        (("--mode", "chat"), "{}", ("chat", "tool")),
    ],
)
def test_bad_input_is_told_before_anything_is_answered(
    options: tuple[str, ...], given: str, said: tuple[str, ...]
) -> None:
    done = run(*options, given=given)

    assert (2, b"") == (done.returncode, done.stdout)
    assert all(word in done.stderr.decode() for word in said)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"), [("{", "no JSON"), ('{"type": 5}', "/type"), ("[]", "a schema is an object")]
)
def test_an_unusable_schema_file_is_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text, encoding="utf-8")
    done = run("--schema", str(file), given="{}")

    assert 2 == done.returncode
    assert str(file) in done.stderr.decode()
    assert said in done.stderr.decode()


def test_it_loads_neither_litellm_nor_redis() -> None:
    code = (
        "import io, sys; sys.stdin = io.TextIOWrapper(io.BytesIO(b'{}'));"
        "from mulligan.cli import main; main(['check-output'], standalone_mode=False)"
    )
    watched = (
        "import atexit, sys; unwanted = {'litellm', 'redis', 'dramatiq'};"
        f"atexit.register(lambda: print(sorted(unwanted & set(sys.modules)))); {code}"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched], capture_output=True, text=True, timeout=60
    )

    assert "[]" == done.stdout.splitlines()[-1], done.stderr
