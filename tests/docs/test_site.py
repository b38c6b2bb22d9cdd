"""The documentation's site: it builds without a warning, and holds what the code has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import mulligan
from mulligan import errors
from mulligan.cli import main
from mulligan.events.facts import FACTS
from mulligan.settings import Settings
from mulligan.web.metrics import described

ROOT = Path(__file__).parents[2]
MAKE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOT_TOLD = {"crash_at", "crash_ask", "dotenv"}
"""Settings of tests, and what is no variable."""
PUBLIC = set(mulligan.__all__) - {"__version__"}


def test_the_site_builds_without_a_warning_and_tells_of_all_that_there_is(tmp_path: Path) -> None:
    # One test, since processes that share the suite would each build the site for their own.
    recipe = re.search(r"^\t\$\(BIN\)/python (-m sphinx .*) build/docs$", MAKE, re.MULTILINE)
    assert recipe is not None, "make docs builds another way"

    built = subprocess.run(
        [sys.executable, *recipe[1].split(), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
    )

    assert (0, "") == (built.returncode, built.stderr)
    told = {path.stem: text_of(path) for path in (tmp_path / "docs/reference").glob("*.html")}
    assert [] == [
        name for name in main.list_commands(None) if f"mulligan {name}" not in told["commands"]
    ]
    variables = [
        f"MULLIGAN_{name.upper()}" for name in Settings.__struct_fields__ if name not in NOT_TOLD
    ]
    assert [] == [name for name in variables if name not in told["settings"]]
    assert [] == [one.name for one in described() if one.name not in told["metrics"]]
    assert [] == [name for name in errors.__all__ if name not in told["errors"]]
    assert [] == [name for name in PUBLIC if name not in told["python"]]
    assert [] == [name for name in FACTS if name not in told["events"]]
    assert "POST /runs/{run}/reconcile" in told["http"]
    assert "outputRepairModel" in told["workflow"]
    assert 'href="docs/recovery.html"' in (tmp_path / "README.html").read_text()


def text_of(page: Path) -> str:
    """What a reader sees of it, without its markup."""
    return re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
