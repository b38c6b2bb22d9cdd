"""
Whole runs in memory in which people answer and decide at any instant, late, twice and against each
other: the first word counts, calls are run once, and what stands beside does not wait.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.decisions import people
from mulligan.errors import AppendRefused, InvalidInput
from mulligan.events import facts
from mulligan.events.store import Append
from mulligan.projections import summary
from mulligan.projections.history import problems
from mulligan.projections.open_requests import OpenRequest, open_requests
from mulligan.projections.rows import SUMMARIES
from mulligan.projections.state import RunState
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, Plan, ToolSpec
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.registry import Tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SEND = "tools:send"


def asking(node: str, **more: Any) -> NodePlan:
    """A node whose agent asks to whom, and then sends, which wants approval."""
    own = {"tools": (SEND,), "allow_user_input": True, **more.pop("agent", {})}
    work = AgentPlan(prompt="Send.", model="m", output_schema=SCHEMA, recovery_limit=0, **own)
    return NodePlan(id=node, work=work, **more)


def step(node: str, *needs: str) -> NodePlan:
    """A function node."""
    work = FunctionPlan(
        call=CodeRef(path="steps:one", digest=""),
        arguments=(),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    return NodePlan(id=node, needs=needs, work=work)


def plan(*nodes: NodePlan) -> Plan:
    spec = ToolSpec(
        name="send",
        description="",
        parameters={"type": "object"},
        effect="write",
        path=SEND,
        digest="",
        permission="ask",
    )
    helper = asking("helper").work
    assert isinstance(helper, AgentPlan)
    return plan_of(*nodes, tools={SEND: spec}, agents={"helper": helper})


def called(request: ModelRequest, name: str, **arguments: Any) -> Answer:
    call = ToolCall(f"{request.request_id}.c", name, json.dumps(arguments))
    return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))


class Office:
    """A world with people in it, who act while models are asked (`chance`), and when it stands."""

    def __init__(self, seed: int, chance: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.chance = chance
        self.sent: list[str] = []
        self.said: list[Append] = []
        self.seen: list[RunState] = []
        self.happened: Counter[str] = Counter()
        send = Tool(self._send, name="send", effect="write", permission="ask")
        code: dict[str, Any] = {SEND: send, "steps:one": lambda: 1}
        provider = ScriptedProvider([self._says] * 100)
        self.world = InMemory(provider=provider, code=code, seed=seed)

    def _send(self, to: str) -> str:
        self.sent.append(to)
        return "sent"

    def _says(self, request: ModelRequest) -> Any:
        if self.random.random() < self.chance:
            self.act()
        rounds = [message for message in request.messages if message.role == "tool"]
        if not rounds:
            return called(request, "request_user_input", assistant_message="To whom?")
        if len(rounds) == 1:
            return called(request, "send", to=f"{rounds[0].content} {request.node}")
        return {"n": len(rounds)}

    def act(self) -> None:
        """Somebody repeats a call, or says something about what is seen now, or was before."""
        if self.said and self.random.random() < 0.2:
            self.happened["repeated"] += 1
            self._tell(self.random.choice(self.said))
            return
        self.seen.append(self.world.state())
        state = self.random.choice(self.seen[-3:])
        self.happened["saw an old state"] += state.version < self.seen[-1].version
        waiting = open_requests(state)
        if waiting:
            self._say(state, self.random.choice(waiting))

    def _say(self, state: RunState, request: OpenRequest) -> None:
        op, by = f"op{len(self.said)}", self.random.choice(["ann", "ben"])
        if request.kind == "input":
            append = people.answer(state, op, request.id, by, by=by)
        elif by == "ann":
            append = people.approve(state, op, request.id, by=by)
        else:
            append = people.deny(state, op, request.id, "no", by=by)
        assert append is not None
        self.said.append(append)
        self._tell(append)

    def _tell(self, append: Append) -> None:
        try:
            self.world.store.append(append)
        except AppendRefused:
            self.happened["too late"] += 1
            return
        for move in append.moves:
            self.world.wake(move.task)

    def settle(self) -> RunState:
        """Act until the run has ended."""
        for _ in range(200):
            state = self.world.state()
            if state.ended:
                return state
            self.act()
            self.world.work()
        raise AssertionError(f"the run is still {state.status}: {state.detail}")


def row(office: Office) -> summary.RunSummary:
    folded: summary.RunSummary = SUMMARIES.fold("run", office.world.events())
    return folded


NODES = (
    asking("a"),
    asking("b"),
    step("items"),
    asking("each", for_each="input.items"),
    step("end", "a", "b", "each"),
)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), chance=st.sampled_from([0.0, 0.5, 1.0]))
def test_the_first_word_counts_and_approved_calls_run_once(seed: int, chance: float) -> None:
    office = Office(seed, chance)
    state = office.world.run(plan(*NODES), {"items": [1, 2]})
    assert (state.status, state.reason) == (row(office).status, row(office).reason)

    state = office.settle()

    assert state.status == "completed"
    history = office.world.events()
    assert problems(history) == []
    expected = []
    for invocation in state.invocations.values():
        asked, sent = invocation.calls.values()
        first = next(
            event.data.answer.value
            for event in history
            if isinstance(event.data, facts.InputProvided) and event.data.request_id == asked.id
        )
        assert asked.result is not None
        assert asked.result.value == first
        expected += [f"{first} {invocation.id}"] * (sent.status == "succeeded")
        decided = next(
            type(event.data)
            for event in history
            if isinstance(event.data, facts.ToolApproved | facts.ToolDenied)
            and event.data.call_id == sent.id
        )
        assert (decided is facts.ToolApproved) == (sent.status == "succeeded")
        assert (invocation.attempt, invocation.recovery.used) == (1, 0)
    assert sorted(office.sent) == sorted(expected)
    assert row(office).status == "completed"


def test_people_do_act_late_twice_and_on_what_they_saw_before() -> None:
    """Or the test above would show nothing."""
    happened: Counter[str] = Counter()
    for seed in range(30):
        office = Office(seed, 1.0)
        office.world.run(plan(*NODES), {"items": [1, 2]})
        office.settle()
        happened += office.happened
        kinds = Counter(type(event.data).__name__ for event in office.world.events())
        happened["answered twice"] += kinds["InputProvided"] > kinds["InputRequested"]

    assert set(happened) >= {"repeated", "saw an old state", "answered twice"}


def test_a_node_that_waits_holds_up_only_what_needs_it() -> None:
    """The graph goes on beside it."""
    office = Office(0)
    nodes = (asking("a"), step("one"), step("two", "one"), step("end", "a", "two"))

    state = office.world.run(plan(*nodes))

    assert (state.status, state.reason) == ("paused", "awaiting_input")
    assert {name: node.status for name, node in state.nodes.items()} == {
        "a": "paused",
        "one": "completed",
        "two": "completed",
        "end": "pending",
    }
    assert row(office).detail == "a.1.1 asks: To whom?"


def test_a_called_agent_asks_and_its_caller_reads_its_output() -> None:
    office = Office(1)

    def caller(request: ModelRequest) -> Any:
        if request.request_id.startswith("a#"):
            rounds = [message for message in request.messages if message.role == "tool"]
            ask = {"subagent": "helper", "input": "send it"}
            return {"n": 9} if rounds else called(request, "call_subagent", **ask)
        return office._says(request)

    office.world = InMemory(
        provider=ScriptedProvider([caller] * 20),
        code={SEND: Tool(office._send, name="send", effect="write", permission="ask")},
    )
    node = asking("a", agent={"subagents": ("helper",), "allow_user_input": False})
    state = office.world.run(plan(node))
    (request,) = open_requests(state)
    assert (request.node, request.agent) == ("a", "helper")

    assert office.settle().output is not None


def test_rec18_the_time_of_an_agent_that_waits_runs_out() -> None:
    """The clock of this world jumps to what is due: the end of the agent's time."""
    office = Office(2)
    state = office.world.run(plan(asking("a", agent={"timeout_ms": 60_000}), step("b")))

    assert (state.status, state.failure and state.failure.kind) == ("failed", "deadline_exceeded")
    assert state.nodes["b"].status == "completed"
    assert problems(office.world.events()) == []


def test_what_a_restarted_world_knows_is_what_waits() -> None:
    """REC-33: a question is in the log; whoever takes over asks nothing again."""
    office = Office(3)
    office.world.run(plan(asking("a")))
    before = office.world.events()

    for task in ("run/", "run/n:a"):
        office.world.wake(task)
    office.world.work()

    assert office.world.events() == before
    with pytest.raises(InvalidInput, match=r"a\.1\.1 asks: To whom\?"):
        people.resume(office.world.state(), "op")
