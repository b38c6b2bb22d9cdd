"""`mulligan run article` and `mulligan repair FOLDER`: what a person sees and gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from mulligan.cli import main
from mulligan.commands import published_workspace
from mulligan.testing.tea_article import (
    BRIEF,
    GOOD,
    OUTLINE,
    PLAIN,
    SOURCES,
    STOCK,
    TITLE,
    WATER,
    article,
    edits,
    says,
    script,
    stock_report,
)

pytestmark = pytest.mark.server

BRIEF_MD = f"""\
---
target_words: 145
sources: {json.dumps(SOURCES)}
---
{TITLE}
"""
THIN_WATER = {**GOOD, "Water": "## Water\n\nHot.\n"}


@pytest.fixture
def home(desk: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, in which commands of this process are given."""
    for name, value in desk.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(desk.folder)
    folder: Path = desk.folder
    (folder / "brief.md").write_text(BRIEF_MD)
    return folder


def mulligan(*arguments: str) -> Result:
    """A command in this process."""
    return CliRunner().invoke(main, arguments)


def run_article(*more: str) -> Result:
    return mulligan(
        *("run", "article", "--input", "brief.md", "--model", "scripted/any", "--run-id", "tea"),
        *more,
    )


def test_an_article_from_a_brief_in_markdown_to_a_published_file(desk: Any, home: Path) -> None:
    writing = says("repair.1.1", {"text": WATER}, cost_usd=0.02)
    desk.model.play({"turns": script(THIN_WATER, writing)})

    done = run_article()

    assert done.exit_code == 0, done.stderr
    phases = [line.split("phase: ")[1] for line in done.stderr.splitlines() if "phase: " in line]
    assert phases == ["plan", "build", "optimize", "review", "publish"]
    assert "round 1 begins at level 2, for word_count, estimated at $0.15" in done.stderr
    assert "round 1 of at most 4: overall score " in done.stderr
    assert "$0.0200 of $2.50 spent" in done.stderr
    published = json.loads(done.stdout)
    assert published["outcome"] == "passed"
    assert Path(published["path"]).read_text() == article()
    assert Path(published["path"]).is_relative_to(home)


def test_rpr_15_the_live_artifacts_are_those_that_another_host_rebuilds(
    desk: Any, home: Path
) -> None:
    desk.model.play({"turns": script(THIN_WATER, says("repair.1.1", {"text": WATER}))})
    assert run_article().exit_code == 0
    live = home / ".mulligan" / "runs" / "tea" / "workspace"

    rebuilt = mulligan("workspace", "tea", "--to", "elsewhere")

    assert rebuilt.exit_code == 0, rebuilt.stderr
    names = sorted(path.relative_to(live) for path in live.rglob("*") if path.is_file())
    assert {str(name) for name in names} >= {
        *(f"repair/draft{n}.md" for n in ("", ".r00", ".r01")),
        *(f"repair/{n}.json" for n in ("quality", "review", "repair-log", "handoff", "state")),
        *(f"repair/{n}.json" for n in ("brief", "angle", "outline", "research", "citations")),
    }
    for name in names:
        assert (home / "elsewhere" / name).read_bytes() == (live / name).read_bytes(), name
    assert not list(live.rglob(".*")), "no half-written file is left"
    for name in published_workspace.PUBLISHED:
        artifact = json.loads((live / "repair" / f"{name}.json").read_text())
        jsonschema.validate(artifact, json.loads(published_workspace.published_text(name)))


def test_rpr_15_a_draft_that_was_made_elsewhere_is_repaired_in_its_folder(
    desk: Any, home: Path
) -> None:
    draft = article().replace(PLAIN, STOCK)
    report = stock_report(draft)
    folder = home / "theirs"
    folder.mkdir()
    (folder / "draft.md").write_text(draft)
    for name, value in (("quality", report), ("brief", BRIEF), ("outline", OUTLINE)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    edit = {"line": report["repairs"][0]["line"], "before": STOCK, "after": PLAIN}
    desk.model.play({"turns": script({}, *edits("repair.1.1", edit))})

    done = mulligan("repair", "theirs", "--model", "scripted/any")

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "passed"
    assert (folder / "draft.md").read_text() == draft, "what was given stays as it was"
    assert (folder / "repair" / "draft.md").read_text() == article()
    handoff = json.loads((folder / "repair" / "handoff.json").read_text())
    assert handoff["completion_status"] == "DONE"
    assert handoff["recommended_next_skill"] == "independent-reviewer"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("missing.md", None, "missing.md can't be read: No such file"),
        ("empty.md", b" \n", "empty.md is empty"),
        ("latin.txt", "Tee für alle".encode("latin-1"), "latin.txt is not UTF-8 text"),
    ],
)
def test_a_text_that_can_not_be_read_is_told_of_before_anything_begins(
    desk: Any, home: Path, name: str, content: bytes | None, told: str
) -> None:
    if content is not None:
        (home / name).write_bytes(content)

    refused = mulligan("run", "article", "--input", name, "--model", "scripted/any")

    assert refused.exit_code == 2
    assert f"--input: {told}" in refused.stderr
    assert desk.untouched()


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "one of draft.md and draft.json is needed, and neither is there"),
        ({"draft.md": "# Tea\n", "draft.json": "{}"}, "both are there"),
        ({"draft.md": "# Tea\n", "quality.json": "{"}, "quality.json is not JSON"),
    ],
)
def test_a_folder_that_holds_no_draft_is_refused(
    desk: Any, home: Path, files: dict[str, str], told: str
) -> None:
    (home / "theirs").mkdir()
    for name, text in files.items():
        (home / "theirs" / name).write_text(text)

    refused = mulligan("repair", "theirs", "--model", "scripted/any")

    assert refused.exit_code == 2
    assert told in refused.stderr
    assert desk.untouched()
