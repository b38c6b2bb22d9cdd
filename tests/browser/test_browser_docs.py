"""What docs/browser.md shows is taken as it stands there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from mulligan.asked import check_input
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.schemas.run_context import RunContext
from tests.browser.bridge_process import RULES, BridgeProcess
from tests.browser.site import Site

DOCS = (Path(__file__).parents[2] / "docs" / "browser.md").read_text()


def block(kind: str) -> str:
    """The one block of that kind."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", DOCS, re.DOTALL)
    return str(found)


def test_the_workflow_is_one_and_takes_the_input_that_is_given_there(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(block("yaml"))
    asked = re.search(r"^\$ mulligan enqueue (flow\.yaml .*)$", DOCS, re.MULTILINE)
    assert asked is not None
    words = shlex.split(asked[1])

    plan = compile_plan(load_workflow(str(tmp_path / words[0])), default_model="scripted/any")
    given = json.loads(words[words.index("--input") + 1])

    check_input(plan, given)
    assert plan.settings.web.host_allowed(given["url"].split("/")[2], 443)


def test_a_function_that_browses_does_so(
    bridge: BridgeProcess, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """web9: called again, as for the same run, it is told of the same save."""
    monkeypatch.setenv("MULLIGAN_BROWSER_SOCKET", str(bridge.socket))
    names: dict[str, Any] = {}
    exec(block("python"), names)
    context = RunContext(run="docs", call="n", owner="n", origin_window="main", web=RULES)

    try:
        for _ in range(2):
            assert "confirmed" == names["deliver"]({"url": f"{site.url}/form"}, context)
    finally:
        bridge.run("tidy").close_all()
    assert 1 == len(site.saved)
