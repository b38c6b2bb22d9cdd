"""`mulligan gates` as a process (ART-2; contracts: exit codes), the network closed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mulligan.schemas
from mulligan.quality.report import quality_of

PUBLISHED = json.loads(
    (Path(mulligan.schemas.__path__[0]) / "json" / "gates.schema.json").read_text("utf-8")
)
CLOSED = """
import socket, sys
def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "urllib.Request"}:
        sys.stderr.write(f"NETWORK {event} {arguments}")
        raise SystemExit(99)
sys.addaudithook(refuse)
from mulligan.cli import main
try:
    main()
finally:
    unwanted = {"litellm", "redis", "dramatiq", "nltk"} & set(sys.modules)
    if unwanted:
        sys.stderr.write(f"LOADED {unwanted}")
"""
"""The command line in a process that ends with 99 where it asks for the network."""


def run(folder: Path, *options: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", CLOSED, "gates", *options],
        input=given,
        capture_output=True,
        cwd=folder,
        timeout=60,
    )


def printed(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(value, PUBLISHED)
    assert done.stderr == b""
    return value


def test_a_file_with_faults(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("\ufeff# Größe\r\n\r\nÄh, we delve into it.\r\n".encode())

    done = run(tmp_path, "a.md", "--json")
    report = printed(done)

    assert done.returncode == 1
    assert report["overall_passed"] is False
    (hit,) = report["hits"]
    assert (hit["line"], hit["column"], hit["rule"]) == (3, 8, "banned.delve-into")
    assert (hit["before"], hit["after"]) == ("delve into", "look into")
    quality = quality_of(report, "gates")  # a repair can start from what is printed (RPR-15)
    assert (quality.trigger, quality.repairs[0].section) == ("banned", "Größe")


def test_for_people(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Mud \u2014 and sun\x1b[2J.\n", encoding="utf-8")

    done = run(tmp_path, "a.md")

    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.decode().startswith("a.md:1:5: em_dash.found: em dash. Write a comma")
    assert b"FAIL" in done.stdout
    assert b"\x1b" not in done.stdout


def test_a_file_without_a_fault_and_standard_input(tmp_path: Path) -> None:
    done = run(tmp_path, "-", "--json", given=b"# Mud\n\nMud dries in the sun.\n")

    assert done.returncode == 0
    assert printed(done)["combined_verdict"] == "SHIP"


def test_a_config_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(
        "profile: article\nbrief: {target_words: 5}\nbanned: {add: [{find: mud, use: clay}]}\n"
    )

    done = run(tmp_path, "-", "--config", "my.yaml", "--json", given=b"# T\n\nMud dries here.\n")
    report = printed(done)

    assert ["banned.mud"] == [hit["rule"] for hit in report["hits"] if hit["gate"] == "banned"]
    assert "word_count" in report["gates"]
    assert "keyword" in report["unasked"]


@pytest.mark.parametrize(
    ("options", "given", "said"),
    [
        (("gone.md",), b"", ("gone.md", "No such file")),
        (("-",), b"\xff\xfe", ("UTF-8",)),
        (("-",), b"a" * (4 * 1024 * 1024 + 1), ("more than", "bytes")),
        (("-", "--config", "gone.yaml"), b"", ("--config gone.yaml", "No such file")),
        (("-", "--config", "bad.yaml"), b"", ("bad.yaml:2: gates.slopp", "did you mean 'slop'")),
        ((), b"", ("FILE",)),
    ],
)
def test_bad_input_is_told(
    tmp_path: Path, options: tuple[str, ...], given: bytes, said: tuple[str, ...]
) -> None:
    (tmp_path / "bad.yaml").write_text("gates:\n  slopp: {threshold: 1}\n")

    done = run(tmp_path, *options, given=given)

    assert (done.returncode, done.stdout) == (2, b"")
    assert all(word in done.stderr.decode() for word in said), done.stderr
    assert b"Traceback" not in done.stderr
