"""
The allowance under any sequence of answers, failures, losses, pauses, resumes and cancellations:
REC-1 to REC-8 and REC-27 as one state machine.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mulligan.decisions import people
from mulligan.decisions.decision import AskModel, ModelOutcome, RunTool, ToolOutcome
from mulligan.events.facts import (
    AllowanceRefunded,
    AllowanceReserved,
    Cause,
    ModelRequested,
    RunCancelRequested,
    RunResumed,
)
from mulligan.events.payload import Payload
from mulligan.projections.history import problems
from mulligan.projections.run import fold
from mulligan.providers.port import Answer, Failure, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan, ToolSpec
from mulligan.testing.given import RUN, Given, plan_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOK = ToolSpec(name="look", path="t:look", description="", parameters={}, digest="", effect="read")
OF_NO_USE = {
    "length": {"finish_reason": "length"},
    "eof": {"finish_reason": None, "terminal": False},
    "empty": {"finish_reason": "stop"},
    "loop": {"finish_reason": None, "terminal": False, "repetitive": True},
    "prose": {"finish_reason": "stop", "text": "It is three."},
}


def answer(*calls: ToolCall, **more: Any) -> Answer:
    fields = {"finish_reason": "tool_calls", "terminal": True, "text": ""}
    return Answer(calls=calls, **{**fields, **more})


class Allowance(RuleBasedStateMachine):
    """One agent, worked by whoever has it; workers are lost, people resume and cancel."""

    @initialize(limit=st.integers(0, 4))
    def begin(self, limit: int) -> None:
        agent = AgentPlan(
            prompt="Count.",
            model="some/model",
            output_schema=SCHEMA,
            recovery_limit=limit,
            tools=("t:look",),
        )
        plan = plan_of(NodePlan(id="a", work=agent), tools={"t:look": LOOK})
        self.given = Given(plan)
        self.limit = limit
        self.phase = "active"
        self.allowed = False
        self.effect: Any = None
        self.decide()

    def decide(self, outcome: Any = None) -> None:
        decision = self.given.then("", outcome)
        self.effect = decision.effect

    @property
    def asking(self) -> bool:
        return isinstance(self.effect, AskModel)

    def hear(self, result: Answer | Failure) -> None:
        self.decide(ModelOutcome(self.effect.prepared.request.request_id, result))

    @precondition(lambda self: self.asking)
    @rule(retry_after_ms=st.none() | st.integers(0, 90_000), chance=st.floats(0, 1))
    def transport_fails(self, retry_after_ms: int | None, chance: float) -> None:
        self.given.chance = chance
        cause = Cause(kind="reset", message="the connection broke")
        self.hear(Failure(cause=cause, transient=True, retry_after_ms=retry_after_ms))

    @precondition(lambda self: self.asking)
    @rule(kind=st.sampled_from(sorted(OF_NO_USE)))
    def answers_in_vain(self, kind: str) -> None:
        self.hear(answer(**OF_NO_USE[kind]))

    @precondition(lambda self: self.asking)
    @rule()
    def submits_what_does_not_fit(self) -> None:
        arguments = json.dumps({"output": {"n": "x"}, "assistant_message": None})
        self.hear(answer(ToolCall("c", "submit_output", arguments)))

    @precondition(lambda self: self.asking)
    @rule()
    def calls_a_tool(self) -> None:
        self.hear(answer(ToolCall("c", "look", "{}")))

    @precondition(lambda self: self.asking)
    @rule()
    def calls_what_is_not_there(self) -> None:
        self.hear(answer(ToolCall("c", "guess", "{}"), ToolCall("d", "guess", "{}")))

    def came_to(self, **what: Any) -> ToolOutcome:
        """What became of the tool that is to be run."""
        call_id, execution = self.effect.call_id, self.effect.execution
        return ToolOutcome(call_id=call_id, execution=execution, duration_ms=1, **what)

    @precondition(lambda self: isinstance(self.effect, RunTool))
    @rule(code=st.sampled_from(["invalid_arguments", "tool_exception"]))
    def tool_fails(self, code: str) -> None:
        error = Cause(kind=code, message="no")
        self.decide(self.came_to(error=error))

    @precondition(lambda self: isinstance(self.effect, RunTool))
    @rule()
    def tool_returns(self) -> None:
        self.decide(self.came_to(result=Payload.of(1)))

    @rule()
    def worker_is_lost(self) -> None:
        self.decide()

    @rule(later_ms=st.integers(0, 40_000))
    def is_woken(self, later_ms: int) -> None:
        if self.effect is None:
            self.given.at(self.given.now_ms + later_ms)
            self.decide()

    @precondition(lambda self: self.given.state.status == "paused")
    @rule()
    def resume(self) -> None:
        self.allowed = True
        for event in people.resume(self.given.state, "op").events:
            self.given.happened(event.data, event.node)
        assert isinstance(self.given.log[-1].data, RunResumed)
        self.decide()

    @precondition(lambda self: self.given.state.status in ("running", "paused"))
    @rule()
    def cancel(self) -> None:
        self.given.happened(RunCancelRequested())
        reserved = len(self.of(AllowanceReserved))
        asked = len(self.of(ModelRequested))
        self.decide()
        assert self.effect is None
        assert (reserved, asked) == (len(self.of(AllowanceReserved)), len(self.of(ModelRequested)))

    def of(self, kind: type) -> list[Any]:
        return [event.data for event in self.given.log if isinstance(event.data, kind)]

    @invariant()
    def the_limit_holds(self) -> None:
        recovery = self.given.state.invocations["a"].recovery
        assert 0 <= recovery.used <= self.limit
        reserved = len(self.of(AllowanceReserved))
        refunded = sum(fact.count for fact in self.of(AllowanceRefunded))
        assert refunded <= sum(f.reason == "transport" for f in self.of(AllowanceReserved))
        assert all(fact.count > 0 for fact in self.of(AllowanceRefunded))
        assert recovery.used <= reserved - refunded
        assert self.given.state.invocations["a"].attempt == 1 + reserved
        assert reserved - refunded <= self.limit * recovery.number

    @invariant()
    def nothing_leaves_paused_or_cancelled_by_itself(self) -> None:
        phase = self.given.state.invocations["a"].recovery.phase
        if self.phase == "cancelled":
            assert phase == "cancelled"
        if self.phase == "paused" and phase != "paused":
            assert phase == "cancelled" or self.allowed
        self.phase, self.allowed = phase, False

    @invariant()
    def the_history_is_sound_and_folds_to_the_same(self) -> None:
        assert [] == problems(self.given.log)
        assert self.given.state == fold(RUN, self.given.log)

    @invariant()
    def requests_are_counted_and_every_retry_was_announced(self) -> None:
        recovery = self.given.state.invocations["a"].recovery
        asked = self.of(ModelRequested)
        assert len(asked) == recovery.requests
        assert len({fact.request_id for fact in asked}) == len(asked)
        for event in self.given.log:
            if isinstance(event.data, ModelRequested) and (event.attempt or 1) > 1:
                announced = [f.next_attempt for f in self.of(AllowanceReserved)]
                assert event.attempt in announced


Allowance.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestAllowance = Allowance.TestCase
