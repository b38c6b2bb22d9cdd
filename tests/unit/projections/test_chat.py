"""A run as a conversation: given a history, what people read of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mulligan.commands.chat import show
from mulligan.decisions import scope
from mulligan.events import facts
from mulligan.events.codec import decode
from mulligan.events.envelope import Envelope
from mulligan.events.ids import overseen
from mulligan.events.payload import Payload
from mulligan.projections import chat
from mulligan.projections.chat import Chat
from mulligan.projections.state import RunState
from mulligan.schemas.plan import AgentPlan, NodePlan
from mulligan.testing.given import Given, plan_of

HISTORIES = Path(__file__).parents[2] / "histories"
LONG = "z" * 5_000


def value_of(payload: Payload) -> Any:
    return payload.value


def filled(state: RunState, node: str, template: str) -> str:
    return scope.prompt(state, node, template, value_of)


def chat_of(events: list[Envelope]) -> Chat:
    return chat.fold("run", events, value_of, filled)


def said(events: list[Envelope]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.agent or one.node, one.text) for one in chat_of(events).entries]


def agent(prompt: str = "Write about {input.topic}.", **more: Any) -> AgentPlan:
    return AgentPlan(
        prompt=prompt, model="m", output_schema={"type": "object"}, recovery_limit=2, **more
    )


def given(**more: Any) -> Given:
    plan = plan_of(
        NodePlan(id="write", work=agent(system="Be brief.", subagents=("sceptic",), **more)),
        agents={"sceptic": agent("Doubt it.")},
    )
    started = Given(plan, {"topic": "tea"}).happened(facts.RunStarted())
    started.happened(facts.NodeReady(carried=True), "write")
    return started.happened(facts.NodeStarted(), "write", 1)


def asked(history: Given, request: int, invocation: str = "write") -> Given:
    fact = facts.ModelRequested(
        request_id=f"{invocation}#{request}",
        invocation=invocation,
        turn=1,
        mode="tool",
        model="m",
        digest="",
    )
    return history.happened(fact, "write", 1)


def answered(history: Given, request: int, *calls: str, text: str | None = None) -> Given:
    fact = facts.ModelAnswered(
        request_id=f"write#{request}",
        invocation="write",
        finish_reason="stop",
        terminal=True,
        text=Payload.of(text) if text is not None else None,
        calls=tuple(facts.CallMade(call_id=call, provider_id=call, name="look") for call in calls),
    )
    return history.happened(fact, "write", 1)


def called(history: Given, call_id: str, arguments: Any) -> Given:
    fact = facts.ToolRequested(
        call_id=call_id,
        invocation="write",
        tool="look",
        provider_id=call_id,
        arguments=Payload.of(arguments),
        effect="read",
        key="",
    )
    return history.happened(fact, "write", 1)


def test_a_prompt_a_turn_its_calls_and_the_output() -> None:
    history = answered(asked(given(), 1), 1, "write.1.1", "write.1.2", text="I look.")
    called(history, "write.1.1", {"at": "shelf"})
    called(history, "write.1.2", {"at": "tin"})
    history.at(3_500)
    history.happened(facts.ToolFailed(call_id="write.1.2", code="gone", message="no tin"), "write")
    result = facts.ToolSucceeded(call_id="write.1.1", result=Payload.of({"found": 1}))
    history.happened(result, "write")
    accepted = facts.OutputAccepted(invocation="write", digest="", assistant_message="Done.")
    history.happened(accepted, "write")
    history.happened(facts.NodeCompleted(output=Payload.of({"tea": 1})), "write", 1)

    assert said(history.log) == [
        ("system", "write", "Be brief."),
        ("prompt", "write", "Write about tea."),
        ("said", "write", "I look."),
        ("call", "write", ""),
        ("call", "write", ""),
        ("message", "write", "Done."),
        ("output", "write", '{"tea":1}'),
    ]
    read = chat_of(history.log).entries
    first, second = (entry.call for entry in read if entry.call is not None)
    assert (first.name, first.arguments, first.status, first.result) == (
        ("look", '{"at":"shelf"}', "succeeded", '{"found":1}')
    )
    assert (second.status, second.result) == ("failed", "gone: no tin")
    assert read[-1].at_ms == 2_500


def test_a_long_result_is_an_excerpt_that_says_so() -> None:
    history = called(answered(asked(given(), 1), 1, "write.1.1"), "write.1.1", {"at": LONG})
    history.happened(facts.ToolSucceeded(call_id="write.1.1", result=Payload.of(LONG)), "write")

    (call,) = (entry.call for entry in chat_of(history.log).entries if entry.call is not None)

    for shown in (call.arguments, call.result or ""):
        assert len(shown) < chat.EXCERPT_CHARACTERS + 50
        assert "z" * 500 in shown
    assert "5,000 characters in all" in (call.result or "")


def test_a_called_agent_has_its_own_prompt_and_output() -> None:
    history = answered(asked(given(), 1), 1, "write.1.1")
    call = facts.SubagentCalled(
        invocation="write.1.1",
        parent="write",
        agent="sceptic",
        provider_id="p",
        input=Payload.of("Is it so?"),
    )
    history.happened(call, "write")
    asked(history, 1, "write.1.1")
    accepted = facts.OutputAccepted(invocation="write.1.1", digest="", assistant_message="No.")
    history.happened(accepted, "write")
    done = facts.SubagentCompleted(
        invocation="write.1.1", output=Payload.of({"so": False}), assistant_message="No."
    )
    history.happened(done, "write")

    assert said(history.log)[2:] == [
        ("call", "write", ""),
        ("system", "sceptic", "Doubt it."),
        ("prompt", "sceptic", "Is it so?"),
        ("message", "sceptic", "No."),
        ("output", "sceptic", '{"so":false}'),
    ]


def test_nothing_that_was_rejected_or_sent_again_is_read() -> None:
    """REC-11: a rejected response leaves no text, a repeated request no second prompt."""
    once = answered(asked(given(), 1), 1)
    before = said(once.log)
    rejected = facts.OutputRejected(invocation="write", kind="schema_violation", digest="d")
    once.happened(rejected, "write", 1)
    reserved = facts.AllowanceReserved(
        invocation="write", reason="schema_violation", next_attempt=2, used=1, limit=2
    )
    once.happened(reserved, "write", 1)
    asked(once, 2)
    # Even if a text of such a response were in the log, it is not part of the conversation.
    answered(once, 2, text="half an answ")

    assert (
        said(once.log)
        == before
        == [
            ("system", "write", "Be brief."),
            ("prompt", "write", "Write about tea."),
        ]
    )


def test_nothing_of_a_repair_by_the_overseer_is_read() -> None:
    """OVR-7: the chat of a repaired output is that of an output which needed no repair."""
    plain, repaired = asked(given(), 1), asked(given(), 1)
    for history in (plain, repaired):
        answered(history, 1)
    overseer = {"request_id": "write.overseer.1#1", "invocation": "write.overseer.1"}
    for fact in (
        facts.OutputRepairRequested(
            invocation="write", kind="invalid_json", digest="d", bytes=9, provider_id="c"
        ),
        facts.OutputRepairStarted(invocation="write", model="big", request_id="r"),
        facts.ModelRequested(**overseer, turn=1, mode="prompt", model="big", digest="d"),
        facts.ModelAnswered(**overseer, finish_reason="stop", terminal=True),
        facts.OutputRepairFailed(invocation="write", reason="oversize", request_id="r"),
        facts.OutputRepairSucceeded(invocation="write", model="big", request_id="r"),
    ):
        repaired.happened(fact, "write", 1)
    for history in (plain, repaired):
        accepted = facts.OutputAccepted(invocation="write", digest="", steps=("overseer",))
        history.happened(accepted, "write", 1)
        history.happened(facts.NodeCompleted(output=Payload.of({"tea": 1})), "write", 1)

    assert said(repaired.log) == said(plain.log)
    assert said(plain.log)[-1] == ("output", "write", '{"tea":1}')


def test_questions_and_answers_stand_where_they_were_asked() -> None:
    history = answered(asked(given(), 1), 1)
    options = [{"label": "green", "description": "fresh"}, {"label": "black", "description": ""}]
    leaf = {"id": "leaf", "header": "Leaf", "question": "Which tea?", "options": options}
    question = facts.InputRequested(
        request_id="write.1.1", invocation="write", provider_id="p", questions=(leaf,)
    )
    history.happened(question, "write")
    for answer in ({"leaf": "green"}, {"leaf": "black"}):
        provided = facts.InputProvided(request_id="write.1.1", answer=Payload.of(answer))
        history.happened(provided, "write")

    assert said(history.log)[2:] == [
        ("question", "write", "leaf [Leaf]: Which tea?\n- green: fresh\n- black: "),
        ("answer", "write", '{"leaf":"green"}'),
    ]


def test_an_output_of_instances_is_read_once() -> None:
    plan = plan_of(NodePlan(id="part", for_each="input.items", work=agent("Do {item}.")))
    history = Given(plan, {"items": ["a", "b"]}).happened(facts.RunStarted())
    history.happened(facts.NodeReady(fan_out=2), "part")
    for index, output in enumerate(("A", "B")):
        history.happened(facts.NodeReady(index=index), f"part[{index}]")
        history.happened(facts.NodeStarted(), f"part[{index}]", 1)
        asked(history, 1, f"part[{index}]")
        history.happened(facts.NodeCompleted(output=Payload.of(output)), f"part[{index}]", 1)
    history.happened(facts.NodeCompleted(output=Payload.of(["A", "B"])), "part")

    assert said(history.log) == [
        ("prompt", "part[0]", "Do a."),
        ("output", "part[0]", "A"),
        ("prompt", "part[1]", "Do b."),
        ("output", "part[1]", "B"),
    ]


@pytest.mark.parametrize("history", sorted(HISTORIES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_recorded_runs_can_be_read(history: Path) -> None:
    lines = map(json.loads, history.read_text().splitlines())
    events = [decode("run", one["version"], int(one["t"]), one["d"].encode()) for one in lines]

    read = chat_of(events)

    asked = {e.data.invocation for e in events if isinstance(e.data, facts.ModelRequested)}
    asked = {invocation for invocation in asked if overseen(invocation) is None}
    assert {e.invocation for e in read.entries if e.kind == "prompt"} == asked
    assert [e.version for e in read.entries] == sorted(e.version for e in read.entries)


def test_text_can_not_move_the_cursor_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    history = answered(asked(given(), 1), 1, "write.1.1", text="one\n\x1b[2Jtwo\r\x9b")
    called(history, "write.1.1", {})

    show(chat_of(history.log))

    printed = capsys.readouterr().out
    assert "    one\n    \\x1b[2Jtwo\\r\\x9b\n" in printed
    assert "look({}) [requested]" in printed
