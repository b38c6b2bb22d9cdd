"""What docs/observability.md tells operators to watch is there under that name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/observability.md").read_text(encoding="utf-8")


def source(*folders: str) -> str:
    return "".join(path.read_text() for one in folders for path in (ROOT / one).rglob("*.py"))


def test_alerts_name_metrics_that_are_offered() -> None:
    named = {name.removesuffix("_total") for name in re.findall(r"\bmulligan_[a-z_]+", PAGE)}

    assert named
    assert named <= set(re.findall(r'"(mulligan_[a-z_]+)"', source("web")))


def test_lines_that_are_explained_are_written() -> None:
    table = PAGE.partition("| line | means |")[2].partition("## ")[0]
    first_cells = re.findall(r"^\|(.*?)\|", table, re.MULTILINE)
    named = {name for cell in first_cells for name in re.findall(r"`([a-z_]+)`", cell)}

    assert {"task_parked", "worker_died"} < named
    assert named <= set(re.findall(r'_log\.[a-z]+\(\s*"([a-z_]+)"', source("actors")))


def test_spans_of_the_table_are_told() -> None:
    fold = source("projections", "decisions")

    for name in ("invoke_workflow", "invoke_agent", "chat", "execute_tool", "repair_round"):
        assert f"`{name} " in PAGE
        assert f'f"{name} ' in fold
