"""What docs/report.md shows is taken as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mulligan.asked import check_input
from mulligan.errors import InvalidInput
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.web_rules import WebRules
from mulligan.workflows.report.form import form_of
from mulligan.workflows.report.package import read_package, write_revision
from mulligan.workflows.report.request import request
from mulligan.workflows.report.site import INPUT, delivery
from mulligan.workflows.report.statements import GATES

DOCS = (Path(__file__).parents[3] / "docs" / "report.md").read_text()
JSON: list[Any] = [json.loads(one) for one in re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)]
REPORT = compile_plan(load_workflow("report"), default_model="scripted/any")
RULES = WebRules(allow=("reports.example.org",))


def test_the_request_is_one() -> None:
    check_input(REPORT, JSON[0])
    asked = request(
        JSON[0], RunContext(run="r", call="c", owner="o", requested_ms=1_796_000_000_000)
    )
    assert ["m1", "m2", "m3"] == [one["id"] for one in asked["materials"]]


def test_the_form_is_one(tmp_path: Path) -> None:
    plan = compile_plan(delivery(allow=RULES.allow).definition())
    check_input(plan, JSON[1])
    assert INPUT == plan.input_schema
    scope = {"kind": "weekly", "week": "2026-W48"}
    folder, _ = write_revision(tmp_path, "w48", scope, "verified", {"summary.md": "All is well."})
    form = form_of(JSON[1]["form"], read_package(folder), RULES)
    assert {"Week": "2026-W48", "Text": "All is well."} == form.fields
    assert form.check is not None
    assert "Report of 2026-W48" == form.check.evidence[0].value


def test_every_stage_and_gate_is_told_of() -> None:
    for name in (*(node.id for node in REPORT.nodes), *GATES):
        assert f"`{name}`" in DOCS, name


@pytest.mark.parametrize(
    "change",
    [
        {"request": "  "},
        {"members": []},
        {"materials": []},
        {"materials": [{"id": "../m", "text": "x"}]},
        {"kind": "../up"},
        {"extra": 1},
    ],
)
def test_an_input_that_does_not_fit_is_refused_when_it_is_handed_in(change: Any) -> None:
    with pytest.raises(InvalidInput, match="input_schema"):
        check_input(REPORT, {**JSON[0], **change})
