"""ART-2, ART-4: prose that people wrote, in texts of ten kinds (tests/data/articles/README.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mulligan.workflows.article.gates.judge import report_on

ARTICLES = sorted((Path(__file__).parents[2] / "data" / "articles").glob("*.md"))
TEXTS = [file for file in ARTICLES if file.name != "README.md"]


def test_there_are_ten_texts() -> None:
    assert len(TEXTS) == 10


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.stem)
def test_ordinary_prose_is_not_flagged(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    report = report_on(text)

    assert [hit for hit in report.hits if hit.gate != "em_dash"] == []
    assert report.gates["slop"].metric < 5
    lines = text.split("\n")
    dashes = [hit for hit in report.hits if hit.gate == "em_dash"]
    assert all(lines[hit.line - 1][hit.column - 1] == "—" for hit in dashes)


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.stem)
def test_every_em_dash_outside_of_code_is_flagged(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    found = {(hit.line, hit.column) for hit in report_on(text).hits if hit.gate == "em_dash"}
    in_code, wanted = False, set()
    for number, line in enumerate(text.split("\n"), start=1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and not line.startswith(("    ", "> ")):
            wanted |= {(number, one.start() + 1) for one in re.finditer("—", line)}

    assert wanted <= found
