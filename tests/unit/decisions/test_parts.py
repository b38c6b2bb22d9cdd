"""REC-19: work that is too much for one response is done in the parts that the workflow makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mulligan.decisions import people
from mulligan.events.store import EventStore
from mulligan.projections.history import problems
from mulligan.projections.trace import fold as fold_trace
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, Plan, PluginPlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WHOLE = "Count what is in a b c."
LIMITS = {"context_window": 100_000, "max_output_tokens": 1_000}


def plugin(path: str, *arguments: str) -> PluginPlan:
    return PluginPlan(call=CodeRef(path=path, digest=""), arguments=arguments)


def agent(**more: Any) -> AgentPlan:
    fields: dict[str, Any] = {
        "prompt": "Count what is in {input}.",
        "model": "some/model",
        "output_schema": SCHEMA,
        "recovery_limit": 2,
        "decompose": plugin("steps:split", "prompt", "cause", "input"),
        "join": plugin("steps:join", "parts"),
    }
    return AgentPlan(**(fields | more))


def flow(limits: dict[str, int] | None = None, **more: Any) -> Plan:
    return plan_of(NodePlan(id="a", work=agent(**more)), **(LIMITS if limits is None else limits))


class Split:
    """A `decompose` step that counts its calls."""

    def __init__(self, parts: Any = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._parts = parts

    def __call__(self, **given: Any) -> Any:
        self.calls.append(given)
        if isinstance(self._parts, Exception):
            raise self._parts
        if self._parts is not None:
            return self._parts
        return [f"Count what is in {one}." for one in given["input"].split()]


def join(parts: list[Any]) -> Any:
    return {"n": sum(part["n"] for part in parts)}


def model(*, too_much: Callable[[ModelRequest], bool]) -> ScriptedProvider:
    """Stops at its limit where it is too much, and says 1, 2, 3 for a, b, c."""

    def said(request: ModelRequest) -> Any:
        user = request.messages[1].content or ""
        if too_much(request):
            call = ToolCall("c", "submit_output", '{"output": {"n": 9}}')
            return Answer(finish_reason="length", terminal=True, text="", calls=(call,))
        return {"n": 1 + "abc".index(user[-2])}

    return ScriptedProvider([said] * 40)


def is_whole(request: ModelRequest) -> bool:
    """Whether more than one thing is to be counted."""
    return len((request.messages[1].content or "").partition(" in ")[2].split()) > 1


def world(
    provider: ScriptedProvider, split: Any = None, joins: Any = join, **more: Any
) -> InMemory:
    code = {"steps:split": split or Split(), "steps:join": joins, "steps:echo": lambda a: a}
    return InMemory(provider=provider, code=code, **more)


def types(one: InMemory) -> list[str]:
    return [event.type for event in one.events()]


def check(one: InMemory) -> None:
    assert problems(one.events()) == []
    assert all(step.text for step in fold_trace("run", one.events()).steps)


def test_it_is_split_worked_and_joined() -> None:
    split = Split()
    provider = model(too_much=is_whole)
    one = world(provider, split)

    state = one.run(flow(), "a b c")

    assert state.status == "completed"
    assert state.output is not None
    assert state.output.value == {"n": 6}
    (given,) = split.calls
    assert (given["prompt"], given["input"]) == (WHOLE, "a b c")
    assert given["cause"]["kind"] == "length"
    assert "1000 tokens" in given["cause"]["message"]
    assert [request.messages[1].content for request in provider.requests[2:]] == [
        "Count what is in a.",
        "Count what is in b.",
        "Count what is in c.",
    ]
    assert "AllowanceExhausted" not in types(one)
    own = state.invocations["a"].recovery
    assert (own.phase, own.used, own.requests) == ("active", 1, 2)
    for number in (1, 2, 3):
        assert state.invocations[f"a.1.{number}"].recovery.parent_id == "a"
    check(one)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_in_which_parts_end_changes_nothing(seed: int) -> None:
    one = world(model(too_much=is_whole), seed=seed)
    state = one.run(flow(), "c a b b")
    assert state.output is not None
    assert state.output.value == {"n": 8}
    check(one)


def test_without_a_known_maximum_the_allowance_decides() -> None:
    provider = model(too_much=is_whole)
    one = world(provider)
    state = one.run(flow({}), "a b c")
    assert state.status == "completed"
    assert sum(map(is_whole, provider.requests)) == 3
    check(one)


def test_rec10_a_cap_of_the_workflow_is_a_limit_and_splits_nothing() -> None:
    split = Split()
    one = world(model(too_much=is_whole), split)
    state = one.run(flow(max_output_tokens=50), "a b c")
    assert (state.status, state.reason) == ("paused", "exhausted")
    assert split.calls == []


def test_rec5_an_allowance_of_0_splits_nothing() -> None:
    split = Split()
    one = world(model(too_much=is_whole), split)
    state = one.run(flow({}, recovery_limit=0), "a b c")
    assert (state.status, state.reason) == ("paused", "exhausted")
    assert split.calls == []


def test_without_a_step_it_pauses_as_before() -> None:
    one = world(model(too_much=is_whole))
    state = one.run(flow(decompose=None, join=None), "a b c")
    assert (state.status, state.reason) == ("paused", "exhausted")
    assert state.invocations["a"].recovery.cause is not None
    assert state.invocations["a"].recovery.cause.kind == "length"


def test_a_part_that_is_too_much_as_well_is_not_divided_again() -> None:
    split = Split()
    heavy = ["b"]
    provider = model(
        too_much=lambda request: (
            is_whole(request) or (request.messages[1].content or "")[-2] in heavy
        )
    )
    one = world(provider, split)

    state = one.run(flow(), "a b c")

    assert (state.status, state.reason) == ("paused", "exhausted")
    assert len(split.calls) == 1
    part = state.invocations["a.1.2"]
    assert (part.status, part.recovery.phase) == ("paused", "paused")
    assert part.recovery.cause is not None
    assert part.recovery.cause.kind == "length"
    check(one)

    heavy.clear()
    before = len(provider.requests)
    one.store.append(people.resume(one.state(), "resume", None))
    one.work()
    state = one.state()
    assert state.output is not None
    assert state.output.value == {"n": 6}
    assert len(provider.requests) == before + 1, "parts that were done ran again"
    assert len(split.calls) == 1
    check(one)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([], "no list of parts"),
        ("a b", "no list of parts"),
        ({"a": 1}, "no list of parts"),
        (["a", ""], "its part 2 is empty"),
        (["a", None], "its part 2 is empty"),
        (["a", WHOLE], "its part 2 is the whole again"),
        (["x"] * 201, "201 parts; 200 at most"),
        (LookupError("no chapters"), "no chapters"),
        (TimeoutError("of its own"), "of its own"),
    ],
)
def test_a_step_that_does_not_help_leaves_the_original_cause(parts: Any, told: str) -> None:
    """REC-8: and a resume tries again, with the step as it is then."""
    split = Split(parts)
    one = world(model(too_much=is_whole), split)

    state = one.run(flow(), "a b c")

    assert (state.status, state.reason) == ("paused", "exhausted")
    recovery = state.invocations["a"].recovery
    assert recovery.phase == "paused"
    assert recovery.cause is not None
    assert recovery.cause.kind == "length"
    (paused,) = [event.data for event in one.events() if event.type == "NodePaused"]
    assert told in paused.detail
    check(one)

    split._parts = None
    one.store.append(people.resume(one.state(), "resume", None))
    one.work()
    assert one.state().output is not None
    assert one.state().output.value == {"n": 6}
    check(one)


@pytest.mark.parametrize(
    ("joins", "told"),
    [
        (lambda parts: {"n": "canary"}, "does not fit the schema"),
        (lambda parts: parts[9], "join: "),
    ],
)
def test_a_join_that_fails_fails_the_node(joins: Any, told: str) -> None:
    one = world(model(too_much=is_whole), joins=joins)
    state = one.run(flow(), "a b c")
    assert state.status == "failed"
    assert state.failure is not None
    assert told in state.failure.message
    assert "canary" not in state.failure.message
    check(one)


def test_a_part_that_fails_fails_the_whole_with_its_cause() -> None:
    def said(request: ModelRequest) -> Any:
        if is_whole(request):
            return Answer(finish_reason="length", terminal=True, text="")
        if (request.messages[1].content or "")[-2] == "b":
            return Answer(finish_reason="content_filter", terminal=True, text="", refused=True)
        return {"n": 1}

    one = world(ScriptedProvider([said] * 10))
    state = one.run(flow(), "a b c")
    assert state.status == "failed"
    assert state.failure is not None
    assert state.failure.kind == "refused"
    assert "part 2 of 3" in state.failure.message
    check(one)


def test_instances_of_a_for_each_node_are_split_one_by_one() -> None:
    def heavy(request: ModelRequest) -> bool:
        return (request.messages[1].content or "") == "Count a b."

    split = Split(["Count a.", "Count b."])
    work = agent(prompt="Count {item}.", decompose=plugin("steps:split", "prompt", "item"))
    plan = plan_of(NodePlan(id="each", work=work, for_each="input"), **LIMITS)
    one = world(model(too_much=heavy), split)

    state = one.run(plan, ["a b", "c"])

    assert state.output is not None
    assert state.output.value == [{"n": 3}, {"n": 3}]
    assert split.calls == [{"prompt": "Count a b.", "item": "a b"}]
    check(one)


def test_a_called_agent_is_split_by_its_own_step() -> None:
    def said(request: ModelRequest) -> Any:
        user = request.messages[1].content or ""
        if user == "Ask." and len(request.messages) == 2:
            arguments = msgspec.json.encode({"subagent": "counter", "input": "a b"}).decode()
            call = ToolCall("c", "call_subagent", arguments)
            return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))
        if user == "Ask.":
            return {"n": msgspec.json.decode(request.messages[3].content or "")["n"]}
        assert "You count." in (request.messages[0].content or "")
        if user == "a b":
            return Answer(finish_reason="length", terminal=True, text="")
        return {"n": 1 + "ab".index(user)}

    counter = agent(prompt="You count.", decompose=plugin("steps:split", "prompt"))
    asks = agent(prompt="Ask.", subagents=("counter",), decompose=None, join=None)
    plan = plan_of(NodePlan(id="a", work=asks), agents={"counter": counter}, **LIMITS)
    one = world(ScriptedProvider([said] * 20), Split(["a", "b"]))

    state = one.run(plan)

    assert state.output is not None
    assert state.output.value == {"n": 3}
    check(one)


def test_what_needs_the_node_has_an_output_of_its_schema() -> None:
    echo = FunctionPlan(
        call=CodeRef(path="steps:echo", digest=""),
        arguments=("a",),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    plan = plan_of(
        NodePlan(id="a", work=agent()), NodePlan(id="b", needs=("a",), work=echo), **LIMITS
    )
    state = world(model(too_much=is_whole)).run(plan, "a b")
    assert state.output is not None
    assert state.output.value == {"n": 3}


class LosesWorker(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("at", range(2, 15))
def test_rec33_a_worker_lost_at_any_append_leaves_a_run_that_ends_the_same(at: int) -> None:
    """Parts that are done do not run again, and no part is asked for twice."""
    provider = model(too_much=is_whole)
    one = world(provider, meddle=lambda store: Dying(store, at))
    try:
        one.run(flow(), "a b c")
    except LosesWorker:
        one.now_ms += 60_000
    one.work()

    state = one.state()
    assert state.output is not None, types(one)
    assert state.output.value == {"n": 6}
    check(one)
    done = [event for event in one.events() if event.type == "SubagentCompleted"]
    assert len(done) == 3
    assert types(one).count("SubagentCalled") == 3
    lost = types(one).count("ModelInterrupted")
    assert len(provider.requests) <= 5 + lost


class Dying:
    """A log whose writer dies before its n-th append."""

    def __init__(self, store: EventStore, at: int) -> None:
        self._store = store
        self._left = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise LosesWorker
        return self._store.append(append)


def test_large_parts_and_outputs_are_handed_on_whole() -> None:
    """Beyond 8 KiB values lie beside the events, not in them."""
    large = "x" * 20_000
    provider = ScriptedProvider(
        [lambda request: Answer(finish_reason="length", terminal=True, text="")] * 2
        + [{"n": 1, "text": large}] * 2
    )
    split = Split([f"Count {large}.", f"Count {large}{large}."])
    one = world(
        provider, split, joins=lambda parts: {"n": 2, "texts": [part["text"] for part in parts]}
    )
    state = one.run(flow(), "a b")
    assert state.status == "completed", types(one)
    assert [len(request.messages[1].content or "") for request in provider.requests[2:]] == [
        20_007,
        40_007,
    ]
    assert state.output is not None
    assert state.output.size > 40_000
    check(one)
