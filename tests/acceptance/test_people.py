"""
What agents ask of people, answered and decided by command, client and asynchronous client, over
real HTTP and on real workers, some of which are killed meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mulligan import AsyncClient
from mulligan.cli import main
from mulligan.errors import InvalidInput
from mulligan.events import facts
from mulligan.projections.history import problems
from mulligan.settings import Settings
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

QUESTIONS = [
    {
        "id": "leaf",
        "header": "Leaf",
        "question": "Which leaf?",
        "options": [
            {"label": "green", "description": "fresh"},
            {"label": "black", "description": "strong"},
        ],
    },
    {
        "id": "size",
        "header": "Size",
        "question": "How much?",
        "options": [
            {"label": "a cup", "description": ""},
            {"label": "a pot", "description": ""},
        ],
    },
]
QUESTION, LOOK, SEND = "gather.1.1", "gather.2.1", "gather.2.2"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.fixture
def office(probe: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The probe, with a model that asks, looks, sends, and is done."""
    monkeypatch.setenv("MULLIGAN_REDIS_URL", probe.url)
    probe.model.play(
        {
            "turns": [
                probe.turn(0, tool_calls=[call("ask_user_question", questions=QUESTIONS)]),
                probe.turn(1, tool_calls=[call("look"), call("send")]),
                probe.turn(2, json={"found": 3}),
            ]
        }
    )
    return probe


def mulligan(*arguments: str) -> Result:
    """A command in this process: a process of its own costs a second."""
    return CliRunner().invoke(main, arguments)


def waits(probe: Any, run: str, reason: str) -> Any:
    """The run's state once it is paused for that reason, and what ran beside has ended."""
    return probe.until(
        run, lambda state: (state.status, state.reason) == ("paused", reason) and not state.active
    )


def tool_results(probe: Any) -> list[str]:
    """What the model read last as results of its calls."""
    messages = probe.model.requests[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def by_command(probe: Any) -> Callable[..., None]:
    def act(*arguments: str) -> None:
        done = probe.cli(*arguments, "--by", "ann")
        assert done.returncode == 0, done.stderr

    return act


def by_client(probe: Any) -> Callable[..., None]:
    def act(what: str, run: str, *rest: str) -> None:
        if what == "answer":
            given = {"leaf": {"option": "green"}, "size": "two cups"}
            assert probe.client.answer(run, given, by="ann")
        else:
            reason = rest[2:]
            assert getattr(probe.client, what)(run, rest[0], *reason, by="ann")

    return act


def by_async_client(probe: Any) -> Callable[..., None]:
    async def say(what: str, run: str, *rest: str) -> None:
        async with AsyncClient(Settings(redis_url=probe.url)) as client:
            if what == "answer":
                assert (await client.question(run)).id == QUESTION
                given = {"leaf": {"option": "green"}, "size": "two cups"}
                assert await client.answer(run, given, node="gather", by="ann")
            elif what == "approve":
                assert await client.approve(run, rest[0], by="ann")
            else:
                assert await client.deny(run, rest[0], rest[2], by="ann")

    def act(*arguments: str) -> None:
        asyncio.run(say(*arguments))

    return act


ANSWER = ("--option", "leaf=green", "--text", "size=two cups")
each_way = pytest.mark.parametrize("way", [by_command, by_client, by_async_client])


# --- What can't be said --------------------------------------------------------------------------

REFUSED = [
    (("answer", "{run}"), "say the answer once"),
    (("answer", "{run}", "green", "--option", "leaf=green"), "say the answer once"),
    (("answer", "{run}", "green"), "asks 2 questions: answer each by its id"),
    (("answer", "{run}", "--option", "leaf"), "write QUESTION=…"),
    (("answer", "{run}", "--option", "leaf=green"), "no answer to 'size'"),
    (("answer", "{run}", "--option", "leaf=grean", "--text", "size=x"), "did you mean 'green'?"),
    (("answer", "{run}", "--text", "leaf=x", "--text", "leaf=y"), "'leaf' is answered twice"),
    (("answer", "{run}", "--text", "leaf=x", "--option", "leaf=green"), "keep one"),
    (("answer", "{run}", "x", "--node", "gathr"), "no node 'gathr' (did you mean 'gather'?)"),
    (("answer", "{run}", "x", "--node", "total"), "does not wait for an answer"),
    (("answer", "{run}", "x", "--request", "gather.9.1"), "it waits for gather.1.1"),
    (("answer", "nobody", "x"), "no run 'nobody'"),
    (("approve", "{run}", "gather.2.2"), "none waits for approval"),
    (("approve", "{run}", "gather.1.1"), "it does not wait for approval"),
    (("deny", "nobody", "gather.2.2"), "no run 'nobody'"),
    (("resume", "{run}"), "a resume does not settle"),
]


def test_what_can_not_be_said_is_refused_before_anything_is_done(office: Any) -> None:
    office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    before = office.types(run)

    for arguments, message in REFUSED:
        refused = mulligan(*(one.format(run=run) for one in arguments))
        assert refused.exit_code == 2, arguments
        assert message in refused.stderr, arguments
        assert "Traceback" not in refused.stderr
    assert office.types(run) == before


# --- The whole of it -----------------------------------------------------------------------------


@each_way
def test_a_run_asks_waits_for_approval_and_goes_on(office: Any, way: Any) -> None:
    worker, act = office.worker(), way(office)
    run = office.enqueue(flow="ask")

    state = waits(office, run, "awaiting_input")
    assert state.nodes["later"].status == "completed", "what stands beside does not wait"
    shown = mulligan("status", run).stdout
    assert "leaf [Leaf]: Which leaf?" in shown
    assert f"mulligan answer {run} --request {QUESTION} --option leaf=… --option size=…" in shown
    assert f"{run}: {QUESTION} asks: Which leaf? | How much?" in mulligan("list").stdout
    assert f"{QUESTION} asks: Which leaf? | How much?" in mulligan("trace", run).stdout
    act("answer", run, *ANSWER)

    state = waits(office, run, "awaiting_approval")
    assert json.loads(tool_results(office)[0]) == {"leaf": "green", "size": "two cups"}
    assert office.done() == {"publish": 2, "look": 1}, worker.log()
    (waiting,) = json.loads(mulligan("status", run, "--json").stdout)["waits_for"]
    told = {key: waiting[key] for key in ("kind", "id", "node", "tool", "effect")}
    assert told == {
        "kind": "approval",
        "id": SEND,
        "node": "gather",
        "tool": "send",
        "effect": "write",
    }
    assert waiting["arguments"]["value"] == {}
    assert f"mulligan approve {run} {SEND}" in mulligan("status", run).stdout
    assert f"{SEND} waits for approval: send (write) with {{}}" in mulligan("trace", run).stdout
    act("approve", run, SEND)

    state = office.until(run, lambda state: state.ended)
    assert state.status == "completed"
    assert office.done()["send"] == 1
    assert state.invocations["gather"].attempt == 1
    assert state.invocations["gather"].recovery.used == 0
    chat = json.loads(mulligan("chat", run, "--json").stdout)["entries"]
    said = [(one["kind"], one.get("text", "")) for one in chat]
    assert ("answer", '{"leaf":"green","size":"two cups"}') in said
    assert any(kind == "question" and "- green: fresh" in text for kind, text in said)
    trace = mulligan("trace", run).stdout
    assert f"{QUESTION}: answered by ann" in trace
    assert f"{SEND}: approved by ann" in trace
    assert mulligan("verify", run).exit_code == 0


@each_way
def test_tool2_a_denied_call_is_never_started_and_its_agent_reads_why(
    office: Any, way: Any
) -> None:
    office.worker()
    act = way(office)
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    act("answer", run, *ANSWER)
    waits(office, run, "awaiting_approval")

    act("deny", run, SEND, "--reason", "too early")

    assert office.until(run, lambda state: state.ended).status == "completed"
    assert office.done()["send"] == 0
    assert json.loads(tool_results(office)[2]) == {
        "outcome": "not_started",
        "code": "denied",
        "message": "a person did not allow this call: too early",
    }
    assert problems(office.events(run)) == []
    refused = mulligan("approve", run, SEND)
    assert (refused.exit_code, "was denied before" in refused.stderr) == (2, True)


def test_saying_it_again_is_no_harm_and_saying_otherwise_is_refused(office: Any) -> None:
    office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    answered = ("answer", run, "--request", QUESTION, "--json")
    first = json.loads(mulligan(*answered, *ANSWER).stdout)
    again = json.loads(mulligan(*answered, *ANSWER).stdout)
    assert (first["changed"], again["changed"]) == (True, False)
    assert first["request"] == again["request"] == QUESTION
    other = mulligan(*answered, '{"leaf": "black", "size": "a pot"}')
    assert (other.exit_code, "that answer stands" in other.stderr) == (2, True)

    waits(office, run, "awaiting_approval")
    decisions = [json.loads(mulligan("approve", run, SEND, "--json").stdout) for _ in range(2)]
    assert [one["changed"] for one in decisions] == [True, False]
    with pytest.raises(InvalidInput, match="approved before"):
        office.client.deny(run, SEND)
    assert office.wait(run).status == "completed"
    assert office.done()["send"] == 1
    assert office.types(run).count("InputProvided") == office.types(run).count("ToolApproved") == 1


@pytest.mark.parametrize("given", [("{not json}", None), ("-", "{not json}\n")])
def test_free_text_is_taken_as_it_is_also_from_standard_input(
    office: Any, given: tuple[str, str | None]
) -> None:
    question = call("request_user_input", assistant_message="Whom?\n\x1b[2JAnd why?")
    office.model.play(
        {
            "turns": [
                office.turn(0, tool_calls=[question]),
                office.turn(1, json={"found": 3}),
            ]
        }
    )
    office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    assert "\x1b" not in mulligan("status", run).stdout, "no model moves the cursor"

    answer, written = given
    assert CliRunner().invoke(main, ["answer", run, answer], input=written).exit_code == 0

    assert office.wait(run).status == "completed"
    assert tool_results(office) == ["{not json}"]


def test_what_can_not_be_kept_is_refused(office: Any) -> None:
    office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    before = office.types(run)

    written = CliRunner().invoke(main, ["answer", run, "-"], input=b"\xff\xfe\n")
    long = mulligan("deny", run, SEND, "--reason", "x" * 2_001)

    assert (written.exit_code, long.exit_code) == (2, 2)
    assert "standard input is not UTF-8 text" in written.stderr
    assert "the reason has 2,001 characters: use up to 2,000" in long.stderr
    assert office.types(run) == before


# --- Crashes, cancellation -----------------------------------------------------------------------


def kill(worker: Any) -> None:
    """kill -9 of the supervisor and of its workers."""
    pids = worker.alive
    worker.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not worker.alive, 10.0)


def test_rec33_what_is_asked_and_answered_outlives_every_worker(office: Any) -> None:
    first = office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    kill(first)
    office.client.answer(run, {"leaf": "green", "size": "a pot"})
    asked = len(office.model.requests)

    second = office.worker("append.before:2:kill")
    waits(office, run, "awaiting_approval")
    assert len(office.model.requests) >= asked + 1
    kill(second)
    assert office.client.approve(run, SEND)
    assert not office.client.approve(run, SEND)
    third = office.worker("append.before:1:kill")
    until(lambda: third.logged("worker_died"), 30.0, third.log)
    assert not office.client.approve(run, SEND)

    assert office.until(run, lambda state: state.ended).status == "completed"
    assert office.done() == {"publish": 2, "look": 1, "send": 1, "total": 1}
    assert office.types(run).count("InputRequested") == 1
    assert office.types(run).count("ToolApprovalRequested") == 1
    assert mulligan("verify", run).exit_code == 0


@pytest.mark.parametrize("reason", ["awaiting_input", "awaiting_approval"])
def test_rec27_a_run_that_waits_for_a_person_can_be_cancelled(office: Any, reason: str) -> None:
    office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    if reason == "awaiting_approval":
        office.client.answer(run, {"leaf": "green", "size": "a pot"})
        waits(office, run, reason)

    assert office.client.cancel(run)

    state = office.until(run, lambda state: state.ended)
    assert (state.status, state.nodes["gather"].status) == ("cancelled", "cancelled")
    for command in (("answer", run, *ANSWER), ("approve", run, SEND), ("deny", run, SEND)):
        assert mulligan(*command).exit_code == 2
    assert office.done()["send"] == 0
    assert problems(office.events(run)) == []


def test_cancelling_wins_over_an_approval_that_no_worker_has_seen(office: Any) -> None:
    first = office.worker()
    run = office.enqueue(flow="ask")
    waits(office, run, "awaiting_input")
    office.client.answer(run, {"leaf": "green", "size": "a pot"})
    waits(office, run, "awaiting_approval")
    kill(first)
    assert office.client.approve(run, SEND)
    assert office.client.cancel(run)

    office.worker()

    assert office.until(run, lambda state: state.ended).status == "cancelled"
    starts = [e.data.call_id for e in office.events(run) if isinstance(e.data, facts.ToolStarted)]
    assert starts == [LOOK]
    assert office.done()["send"] == 0
