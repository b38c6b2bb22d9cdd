"""A repair loop from the command line: its log, its files, and what a person decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.server

INPUT = {"documents": [{"id": "note", "text": "no invoice is in here"}]}
NOTHING = {"turns": [{"times": "always", "json": {"records": [], "instructions": "look again"}}]}


@pytest.fixture
def exhausted(desk: Any) -> str:
    """A run whose loop asks for a decision."""
    desk.model.play(NOTHING)
    ended = desk.mulligan(
        *("run", "records", "--model", "scripted/any", "--run-id", "notes"),
        *("--input", json.dumps(INPUT)),
    )
    assert ended.returncode == 3, ended.stderr
    assert "awaiting_decision" in ended.stderr
    assert "mulligan decide notes accept|abort|take-over" in ended.stderr
    return "notes"


def log_of(desk: Any, run: str) -> dict[str, Any]:
    shown = desk.mulligan("repair-log", run, "--json")
    assert shown.returncode == 0, shown.stderr
    (loop,) = json.loads(shown.stdout)["loops"]
    return dict(loop)


def test_rpr_3_the_repair_log_tells_levels_scores_and_cost(desk: Any, exhausted: str) -> None:
    log = log_of(desk, exhausted)

    assert [one["level"] for one in log["iterations"]] == [3, 4, 5]
    assert [one["level"] for one in log["passed_over"]] == [1, 2]
    assert (log["outcome"], log["halt_reason"]) == ("halted", "level_5_failed")
    assert all(one["cost_usd"] is None for one in log["iterations"])
    told = desk.mulligan("repair-log", exhausted).stdout
    assert "unknown" in told
    assert f"mulligan decide {exhausted}" in told


def test_rpr_15_the_artifacts_are_files_that_can_be_written_again(
    desk: Any, exhausted: str, tmp_path: Path
) -> None:
    own = desk.folder / ".mulligan" / "runs" / exhausted / "workspace" / "repair"
    assert json.loads((own / "state.json").read_text())["phase"] == "decide"
    assert json.loads((own / "handoff.json").read_text())["completion_status"] == "BLOCKED"
    names = sorted(path.name for path in own.iterdir())
    assert [name for name in names if name.startswith("draft.r")] == [
        f"draft.r{n:02}.json" for n in range(4)
    ]

    again = desk.mulligan("workspace", exhausted, "--to", str(tmp_path / "copy"))

    assert again.returncode == 0, again.stderr
    for path in own.iterdir():
        assert (tmp_path / "copy" / "repair" / path.name).read_bytes() == path.read_bytes()


def test_rpr_10_a_person_takes_over_with_a_draft_of_their_own(
    desk: Any, exhausted: str, tmp_path: Path
) -> None:
    draft = tmp_path / "mine.json"
    draft.write_text(json.dumps({"instructions": "", "documents": []}))

    assert desk.mulligan("decide", exhausted, "take-over", "--draft", str(draft)).returncode == 0
    worked = desk.mulligan(
        *("run", "records", "--model", "scripted/any", "--run-id", exhausted),
        *("--input", json.dumps(INPUT)),
    )

    assert worked.returncode == 0, worked.stderr
    assert json.loads(worked.stdout)["outcome"] == "taken_over"


def test_a_decision_that_can_not_be_taken_is_refused(desk: Any, exhausted: str) -> None:
    for arguments, told in (
        (("take-over",), "--draft FILE"),
        (("accept", "--draft", "x.json"), "only take-over"),
        (("take-over", "--draft", "nowhere.md"), "can't be read"),
        (("accept", "--node", "extract"), "does not ask for a decision"),
        (("perhaps",), "Invalid value"),
    ):
        refused = desk.mulligan("decide", exhausted, *arguments)
        assert refused.returncode == 2, arguments
        assert told in refused.stderr


def test_a_run_without_a_loop_has_no_repair_log(desk: Any) -> None:
    desk.mulligan("enqueue", str(desk.flow), "--run-id", "plain", "--input", '{"topic": "tea"}')

    shown = desk.mulligan("repair-log", "plain")

    assert shown.returncode == 0
    assert "no node of this run has judged a draft" in shown.stdout
    assert desk.mulligan("decide", "plain", "accept").returncode == 2
