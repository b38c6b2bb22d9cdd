"""What the soak's figures are made of, and that what it plays can be played."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


class Watched:
    """Somebody could have taken over whatever was killed before `until_ms`."""

    def __init__(self, until_ms: int) -> None:
        self._until_ms = until_ms

    def anyone_throughout(self, from_ms: int, to_ms: int) -> bool:
        return from_ms < self._until_ms


@pytest.mark.usefixtures("bench")
def test_from_a_kill_to_the_next_claim_of_what_the_killed_worker_held() -> None:
    from soak_mishaps import Kill, Resumed, resumed_ms

    from mulligan.testing.journal import Taken

    def taken(task: str, token: str, at_ms: int, by: str) -> Any:
        return Taken(task=task, run="r", token=token, version=1, now_ms=at_ms, by=by)

    journal = [
        taken("r/", "a", 100, "7.1"),
        taken("r/n:x", "b", 110, "8.1"),
        taken("r/", "c", 900, "8.2"),
        taken("r/", "d", 950, "9.1"),
    ]
    held = (("r/", "a"), ("r/n:x", "b"))
    kills = [Kill(7, 200, held), Kill(8, 910, (("r/", "c"),)), Kill(9, 990, (("r/", "d"),))]

    found = resumed_ms(kills, Watched(900), journal)  # type: ignore[arg-type]

    assert [Resumed(700, disturbed=False), Resumed(40, disturbed=True)] == found


@pytest.mark.usefixtures("bench")
def test_its_flows_and_its_script_are_good() -> None:
    from soak_flows import COVERED, HANDS, SCRIPT, SPENT

    from mulligan.client import compile_flow
    from mulligan.schemas.workflow import WorkflowDefinition
    from mulligan.testing.script import script_of

    plans = [compile_flow(WorkflowDefinition.model_validate(flow)) for flow in (HANDS, SPENT)]

    effects = {tool.effect for plan in plans for tool in plan.tools.values()}
    assert {"read", "idempotent", "write"} == effects
    assert {tool.name for plan in plans for tool in plan.tools.values()} <= set(COVERED)
    assert script_of(SCRIPT).turns
    sys.modules.pop("soak_steps", None)
