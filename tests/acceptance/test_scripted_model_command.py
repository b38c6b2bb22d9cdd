"""
`mulligan scripted-model` as a process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "schemas" / "json" / "scripted-model.schema.json"
COMMAND = [sys.executable, "-m", "mulligan.cli", "scripted-model"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_where_it_is_and_ends_when_told(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("turns: [{text: hello}]")
    with subprocess.Popen([*COMMAND, str(script), "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        jsonschema.validate(told, json.loads(SCHEMA.read_text()))
        ask = {"model": "m", "messages": []}
        response = httpx2.post(f"{told['url']}/chat/completions", json=ask, trust_env=False)
        process.send_signal(number)

        assert 0 == process.wait(30)
    assert "hello" == response.json()["choices"][0]["message"]["content"]


def test_a_wrong_script_ends_with_2_and_the_line(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("turns:\n  - txt: hello\n")

    done = subprocess.run([*COMMAND, str(script)], capture_output=True, text=True, timeout=60)

    assert 2 == done.returncode
    assert f"{script}:2: turns[0].txt: unknown key (did you mean text?)" in done.stderr
    assert "" == done.stdout
