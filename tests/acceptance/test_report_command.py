"""The weekly report by command: it asks for a missing author, and is delivered once it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mulligan.cli import main
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.week_report import GOOD, INPUT, WEEK, script

pytestmark = pytest.mark.server

STATEMENTS = [*GOOD, {"text": "The label printer was replaced.", "evidence": ["e3"]}]


def test_rept3_a_report_by_command(
    server: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.client() as client:
        client.flushall()
    given = tmp_path / "week.json"
    given.write_text(json.dumps(INPUT))
    (tmp_path / "bad.json").write_text(json.dumps({**INPUT, "materials": []}))
    monkeypatch.setenv("MULLIGAN_REDIS_URL", server.url)
    monkeypatch.setenv("MULLIGAN_DATA_DIR", str(tmp_path))

    def mulligan(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    with ScriptedModel({"turns": script(INPUT, STATEMENTS)}) as model:
        monkeypatch.setenv("MULLIGAN_API_BASE", model.url)
        run = ("run", "report", "--model", "scripted/any", "--run-id", "w48", "--input")
        refused = mulligan(*run, str(tmp_path / "bad.json"))
        assert (2, True) == (refused.exit_code, "$.materials" in refused.stderr)
        assert [] == model.requests
        waits = mulligan(*run, str(given))
        assert (3, True) == (waits.exit_code, "awaiting_input" in waits.stderr), waits.output
        assert "mulligan answer w48 --request reconciled.1.1 --option m3=…" in (
            mulligan("status", "w48").stdout
        )
        assert 0 == mulligan("answer", "w48", "--option", "m3=Bert").exit_code
        done = mulligan(*run, str(given))

    assert 0 == done.exit_code, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert ("locally", 1, "DONE") == (
        told["delivered"],
        told["revision"],
        told["completion_status"],
    )
    folder = tmp_path / "reports" / "weekly" / WEEK / "w48" / "r01"
    assert str(folder) == told["folder"]
    assert "replaced. [m3]" in (folder / "summary.md").read_text()
