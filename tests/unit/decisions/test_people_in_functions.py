"""Questions of function nodes: asked by what they raise, answered, and called again (rept3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.decisions import people
from mulligan.decisions.fork import fork
from mulligan.errors import InvalidInput
from mulligan.events.facts import EffectClass
from mulligan.projections.history import problems
from mulligan.projections.open_requests import open_requests
from mulligan.schemas.plan import CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.tools.input_needed import InputNeeded

ANNA = {"id": "a1", "question": "Who wrote a1?", "options": [{"label": "Anna"}, {"label": "Bert"}]}
FREE = {"id": "why", "question": "Why?"}


def asks(answers: dict[str, str]) -> dict[str, str]:
    if "a1" not in answers:
        raise InputNeeded(ANNA, FREE)
    if answers["a1"] == "Zoe":
        raise InputNeeded({**ANNA, "question": "Zoe is nobody; who wrote a1?"})
    return answers


class World(InMemory):
    """A run of one node that calls `function`; its task is the run's own, or `apart`."""

    def __init__(self, function: Callable[..., Any], effect: EffectClass, apart: bool) -> None:
        super().__init__(code={"s:asks": function, "s:other": lambda: 1}, seed=1)
        work = FunctionPlan(
            call=CodeRef(path="s:asks", digest=""),
            arguments=("answers",),
            effect=effect,
            attempts=1,
            backoff_ms=1,
            backoff_max_ms=1,
        )
        nodes = [NodePlan(id="ask", work=work)]
        if apart:
            other = CodeRef(path="s:other", digest="")
            plain = FunctionPlan(
                call=other, arguments=(), effect="read", attempts=1, backoff_ms=1, backoff_max_ms=1
            )
            nodes.append(NodePlan(id="other", work=plain))
        self.run(plan_of(*nodes))

    def answer(self, given: Any, op: str) -> bool:
        request = open_requests(self.state())[0].id
        append = people.answer(self.state(), op, request, given, by="me")
        if append is not None:
            self.store.append(append)
            self.work()
        return append is not None

    def output(self) -> Any:
        found = self.state().nodes["ask"].output
        return found.value if found is not None else None


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
def test_a_function_that_asks_waits_and_is_called_again_with_the_answers(
    effect: EffectClass, apart: bool
) -> None:
    calls: list[dict[str, str]] = []

    def counted(answers: dict[str, str]) -> Any:
        calls.append(dict(answers))
        return asks(answers)

    world = World(counted, effect, apart)
    state = world.state()
    assert ("paused", "awaiting_input") == (state.status, state.reason)
    assert ["ask.1.1"] == [one.id for one in open_requests(state)]
    assert [{}] == calls, "nothing is called while people are awaited"

    world.answer({"a1": "Zoe", "why": "so"}, "op1")
    assert ["ask.2.1"] == [one.id for one in open_requests(world.state())]
    world.answer({"a1": {"option": "Bert"}}, "op2")

    assert "completed" == world.state().status
    assert {"a1": "Bert", "why": "so"} == world.output()
    assert 3 == len(calls)
    assert [] == list(problems(world.events()))
    assert {"completed"} == {one.status for one in world.state().invocations.values()}


def test_a_write_that_asked_once_is_not_called_again_twice() -> None:
    """The check of histories allows one more call for an answer, and no other."""
    world = World(asks, "write", True)
    world.answer({"a1": "Anna", "why": "so"}, "op1")
    events = world.events()
    started = next(e for e in events if e.type == "NodeStarted" and e.node == "ask")
    again = replace(started, version=events[-1].version + 1, id="again")

    assert [] == list(problems(events))
    assert any("on its own" in one.told for one in problems([*events, again]))


def test_an_answer_that_is_none_changes_nothing() -> None:
    world = World(asks, "read", False)
    with pytest.raises(InvalidInput, match="--text why=…"):
        world.answer({"a1": "Anna"}, "op1")
    with pytest.raises(InvalidInput, match="no option 'Carl'"):
        world.answer({"a1": {"option": "Carl"}, "why": "so"}, "op2")

    assert "paused" == world.state().status


def test_a_run_that_waits_for_an_answer_can_be_cancelled() -> None:
    world = World(asks, "write", True)
    append = people.cancel(world.state(), "op")
    assert append is not None
    world.store.append(append)
    world.work()

    assert "cancelled" == world.state().status
    assert () == open_requests(world.state())


def asks_of(item: str, answers: dict[str, str]) -> str:
    if item not in answers:
        raise InputNeeded({"id": item, "question": f"Who is {item}?"})
    return answers[item]


def test_each_instance_of_a_for_each_asks_for_itself() -> None:
    work = FunctionPlan(
        call=CodeRef(path="s:asks", digest=""),
        arguments=("item", "answers"),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    world = InMemory(code={"s:asks": asks_of}, seed=3)
    world.run(plan_of(NodePlan(id="ask", for_each="input", work=work)), ["x", "y"])

    for name in ("x", "y"):
        state = world.state()
        (asked,) = [one for one in open_requests(state) if one.questions[0].id == name]
        append = people.answer(state, f"op{name}", asked.id, f"{name} it is", by="me")
        assert append is not None
        world.store.append(append)
        world.work()

    output = world.state().output
    assert output is not None
    assert ["x it is", "y it is"] == output.value
    assert [] == list(problems(world.events()))


def test_a_fork_of_a_run_that_waits_is_asked_too() -> None:
    world = World(asks, "idempotent", True)
    at = next(event.version for event in world.events() if event.type == "NodePaused")
    world.store.append(fork(world.events(), at, "copy", "fork", lambda payload: payload.value))
    world.work()

    state = world.state("copy")
    (asked,) = open_requests(state)
    append = people.answer(state, "op", asked.id, {"a1": "Anna", "why": "so"}, by="me")
    assert append is not None
    world.store.append(append)
    world.work()

    output = world.state("copy").nodes["ask"].output
    assert output is not None
    assert {"a1": "Anna", "why": "so"} == output.value
    assert "paused" == world.state().status, "the first run waits on"


@pytest.mark.parametrize(
    "questions",
    [
        (),
        ({"id": "a"},),
        ({"id": " ", "question": "?"},),
        (FREE, FREE),
        ({**FREE, "header": "longer than twelve"},),
        ({**FREE, "options": [{"label": "one"}]},),
        ({**FREE, "options": [{"label": "one"}, {"label": "one"}]},),
    ],
)
def test_what_is_no_question_is_refused(questions: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(InvalidInput):
        InputNeeded(*questions)
