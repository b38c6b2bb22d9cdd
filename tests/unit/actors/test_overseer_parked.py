"""
An overseer that fails in a way that no decision names: its failure, and nothing of it is left.
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.events.facts import OutputRejected, OutputRepairFailed, OutputRepairRequested
from mulligan.events.ids import overseen
from mulligan.providers.port import ModelRequest, Prepared
from mulligan.schemas.plan import AgentPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CANARY = "canary-7713"


class Unprepared(ScriptedProvider):
    """Fails over the overseer's requests as a library might, quoting what it was given."""

    def prepare(self, request: ModelRequest) -> Prepared:
        if overseen(request.request_id.rpartition("#")[0]) is not None:
            raise RuntimeError(f"can't make anything of {request.messages[-1].content}")
        return super().prepare(request)


def test_ovr10_an_error_of_no_name_leaves_neither_candidate_nor_its_text(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Any] = [{"n": CANARY}, {"n": 2}]
    world = InMemory(provider=Unprepared(answers))
    agent = AgentPlan(prompt="Count.", model="a/b", output_schema=SCHEMA, recovery_limit=2)

    state = world.run(plan_of(NodePlan(id="a", work=agent)))

    facts = [event.data for event in world.events()]
    assert "completed" == state.status
    assert 1 == sum(isinstance(fact, OutputRejected) for fact in facts)
    assert 1 == sum(isinstance(fact, OutputRepairRequested) for fact in facts)
    assert ["invocation_failed"] == [f.reason for f in facts if isinstance(f, OutputRepairFailed)]
    assert world.store.sealed("run/o:a.1") is None
    written = capsys.readouterr()
    told = caplog.text + written.out + written.err
    assert CANARY not in told + repr(facts)
    assert "RuntimeError" in told
    assert "in prepare" in told, "where it came from is told"
