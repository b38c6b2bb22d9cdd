"""The examples of docs/testing.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.testing.server import ValkeyServer

DOCS = Path(__file__).parents[2] / "docs" / "testing.md"
CHECK, FLOW, SIMULATE = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


def ran(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of these lines in a folder."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.usefixtures("store")  # an empty log
def test_what_the_world_saw_and_no_log_announced_is_told(
    server: ValkeyServer, tmp_path: Path
) -> None:
    done = ran(CHECK, tmp_path, MULLIGAN_REDIS_URL=server.url)

    assert 0 == done.returncode, done.stderr
    assert ["effect_unannounced:"] == [line.split()[0] for line in done.stdout.splitlines()]


def test_the_workflow_keeps_its_promises_under_every_seed(tmp_path: Path) -> None:
    (tmp_path / "my_flow.py").write_text(FLOW)

    done = ran(SIMULATE.replace("1_000", "50"), tmp_path)

    assert 0 == done.returncode, done.stderr[-2_000:]
