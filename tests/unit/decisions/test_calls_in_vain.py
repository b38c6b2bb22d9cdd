"""
A model that calls what can't be called, over and over: bounded by the allowance (REC-2, REC-4).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.decisions.decision import AskModel, ModelOutcome, RunTool, ToolOutcome
from mulligan.events.facts import AllowanceReserved, Cause, ModelRequested, RunResumed
from mulligan.events.payload import Payload
from mulligan.projections.history import problems
from mulligan.projections.state import Recovery
from mulligan.providers.port import Answer, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan, ToolSpec
from mulligan.testing.given import Given, plan_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOK = ToolSpec(name="look", path="t:look", description="", parameters={}, digest="", effect="read")


def begun(limit: int = 2) -> Given:
    agent = AgentPlan(
        prompt="Count.",
        model="some/model",
        output_schema=SCHEMA,
        recovery_limit=limit,
        tools=("t:look",),
    )
    given = Given(plan_of(NodePlan(id="a", work=agent), tools={"t:look": LOOK}))
    given.then()
    return given


def calls(given: Given, *names: str) -> Any:
    """The model calls these, all in one turn."""
    made = tuple(ToolCall(f"c{n}", name, "{}") for n, name in enumerate(names))
    answer = Answer(finish_reason="tool_calls", terminal=True, text="", calls=made)
    request = given.state.invocations["a"].request
    assert request is not None
    return given.then("", ModelOutcome(request.id, answer))


def refused(given: Given, decision: Any) -> Any:
    """The tool refuses its arguments."""
    assert isinstance(decision.effect, RunTool)
    error = Cause(kind="invalid_arguments", message="q: missing")
    return given.then("", ToolOutcome(call_id=decision.effect.call_id, error=error, duration_ms=1))


def recovery(given: Given) -> Recovery:
    return given.state.invocations["a"].recovery


def reserved(given: Given) -> list[AllowanceReserved]:
    return [one.data for one in given.log if isinstance(one.data, AllowanceReserved)]


def asked(given: Given) -> int:
    return sum(isinstance(event.data, ModelRequested) for event in given.log)


def test_rec2_calls_of_unknown_tools_end_with_the_allowance() -> None:
    given = begun(limit=2)
    for _ in range(3):
        calls(given, "guess", "guess")

    assert ["wrong_envelope", "wrong_envelope"] == [one.reason for one in reserved(given)]
    assert ["a#1", "a#2"] == [one.request_id for one in reserved(given)]
    assert ("paused", "exhausted", 3) == (given.state.status, given.state.reason, asked(given))
    cause = recovery(given).cause
    assert cause is not None
    assert "not offered" in cause.message
    assert [] == problems(given.log)


def test_rec2_arguments_that_their_tools_refuse_end_with_the_allowance() -> None:
    given = begun(limit=1)
    for _ in range(2):
        decision = refused(given, calls(given, "look", "look"))
        refused(given, decision)

    assert ["schema_violation"] == [one.reason for one in reserved(given)]
    assert ("paused", "exhausted", 2) == (given.state.status, given.state.reason, asked(given))


@pytest.mark.parametrize("code", ["tool_exception", None])
def test_rec4_a_turn_in_which_a_tool_ran_costs_nothing(code: str | None) -> None:
    given = begun(limit=0)
    decision = calls(given, "guess", "look")
    assert isinstance(decision.effect, RunTool)
    error = Cause(kind=code, message="it broke") if code else None
    result = None if code else Payload.of(1)
    given.then(
        "",
        ToolOutcome(call_id=decision.effect.call_id, error=error, result=result, duration_ms=1),
    )

    assert ([], 2, "active") == (reserved(given), asked(given), recovery(given).phase)


def test_rec23_the_model_is_shown_its_calls_what_they_were_told_and_how_to_go_on() -> None:
    given = begun()
    decision = calls(given, "guess")

    assert isinstance(decision.effect, AskModel)
    request = decision.effect.prepared.request
    *_, said, told, note = request.messages
    assert ["guess"] == [call.name for call in said.calls]
    assert "unknown_tool" == json.loads(told.content or "")["code"]
    assert "not offered" in (note.content or "")
    assert "call tools, or finish" in (note.content or "")
    assert (2, "retrying") == (request.attempt, recovery(given).phase)


def test_rec8_a_resume_asks_again_and_counts_the_turn_once() -> None:
    given = begun(limit=0)
    calls(given, "guess")
    assert "paused" == given.state.status

    given.happened(RunResumed())
    decision = given.then()

    assert isinstance(decision.effect, AskModel)
    assert (0, 2) == (recovery(given).used, recovery(given).number)
    assert [] == problems(given.log)
