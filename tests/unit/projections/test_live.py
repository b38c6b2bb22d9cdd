"""Live output in its place between the events (issue 5: a superseded attempt says so)."""

from __future__ import annotations

from typing import Any

from mulligan.events import facts
from mulligan.events.deltas import Delta
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Cause, Fact
from mulligan.events.payload import Payload
from mulligan.projections.live import LiveLines, Void

CAUSE = Cause(kind="length", message="the response stopped at its output limit")


class World:
    """Lines as words: an event's type, what is said, and what is void."""

    def __init__(self) -> None:
        self.lines = LiveLines()
        self.version = 0

    def merge(self, facts: list[Fact], *deltas: Delta, node: str = "a") -> list[str]:
        return [_word(line) for line in self.lines.merge(self.events(facts, node), deltas)]

    def events(self, facts: list[Fact], node: str) -> list[Envelope]:
        events = []
        for fact in facts:
            self.version += 1
            events.append(
                Envelope(
                    id=f"e{self.version}",
                    run="run",
                    version=self.version,
                    time_ms=0,
                    data=fact,
                    node=node,
                    attempt=1,
                    correlation="e1",
                )
            )
        return events


def _word(line: Envelope | Delta | Void) -> str:
    match line:
        case Envelope():
            return line.type
        case Delta():
            return f"{line.request_id} {line.text}"
        case Void():
            return f"{line.request_id} void: {line.reason} -> {line.next_attempt}"


def said(text: str, request: str = "a#1", attempt: int = 1) -> Delta:
    invocation = request.partition("#")[0]
    return Delta(
        run="run",
        node=invocation.partition(".")[0],
        invocation=invocation,
        attempt=attempt,
        request_id=request,
        kind="output",
        offset=0,
        text=text,
    )


def asked(request: str = "a#1") -> Fact:
    return facts.ModelRequested(
        request_id=request,
        invocation=request.partition("#")[0],
        turn=1,
        mode="tool",
        model="m",
        digest="",
    )


def answered(request: str = "a#1", reason: str = "stop") -> Fact:
    invocation = request.partition("#")[0]
    return facts.ModelAnswered(
        request_id=request, invocation=invocation, finish_reason=reason, terminal=True
    )


def reserved(reason: Any = "length", invocation: str = "a") -> Fact:
    return facts.AllowanceReserved(
        invocation=invocation, reason=reason, next_attempt=2, used=1, limit=2
    )


def failed(*, transient: bool, kind: str = "reset", request: str = "a#1") -> Fact:
    cause = Cause(kind=kind, message="")
    return facts.ModelFailed(request_id=request, invocation="a", cause=cause, transient=transient)


ACCEPTED = facts.OutputAccepted(invocation="a", digest="")


def test_what_was_said_stands_before_the_event_that_ends_it() -> None:
    world = World()
    assert world.merge([asked()]) == ["ModelRequested"]
    assert world.merge([], said("one")) == ["a#1 one"]
    assert world.merge([answered(), ACCEPTED], said("two")) == [
        "a#1 two",
        "ModelAnswered",
        "OutputAccepted",
    ]


def test_what_overtook_its_request_waits_for_it() -> None:
    world = World()
    assert world.merge([], said("one")) == []
    assert world.merge([asked()]) == ["ModelRequested", "a#1 one"]


def test_who_comes_late_hears_the_request_that_is_under_way() -> None:
    world = World()
    assert world.merge([], said("of a request before the first event")) == []
    assert world.merge([]) == ["a#1 of a request before the first event"]


def test_a_superseded_attempt_says_so_before_the_next_begins() -> None:
    world = World()
    world.merge([asked()], said("cut"))
    lines = world.merge(
        [answered(reason="length"), reserved(), asked("a#2")], said("whole", "a#2", 2)
    )
    assert lines == [
        "ModelAnswered",
        "a#1 void: length -> 2",
        "AllowanceReserved",
        "ModelRequested",
        "a#2 whole",
    ]


def test_what_comes_after_the_end_of_its_request_is_dropped() -> None:
    world = World()
    world.merge([asked()], said("cut"))
    world.merge([answered(reason="length"), reserved(), asked("a#2")])
    assert world.merge([], said("late")) == []
    assert world.merge([], said("new", "a#2", 2)) == ["a#2 new"]


def test_nothing_is_taken_back_of_which_nothing_was_shown() -> None:
    world = World()
    lines = world.merge([asked(), answered(reason="length"), reserved()])
    assert lines == ["ModelRequested", "ModelAnswered", "AllowanceReserved"]


def test_it_is_taken_back_once() -> None:
    world = World()
    world.merge([asked()], said("cut"))
    lines = world.merge([failed(transient=True), reserved("transport"), reserved("transport")])
    assert [line for line in lines if "void" in line] == ["a#1 void: transport -> 2"]


def test_exhaustion_a_lost_worker_and_failures_take_it_back() -> None:
    ends: list[tuple[list[Fact], str]] = [
        (
            [
                answered(reason="length"),
                facts.AllowanceExhausted(invocation="a", reason="length", cause=CAUSE),
            ],
            "length",
        ),
        ([facts.ModelInterrupted(request_id="a#1", invocation="a")], "interrupted"),
        (
            [failed(transient=False, kind="auth"), facts.NodeFailed(code="auth", message="")],
            "auth",
        ),
        ([failed(transient=False, kind="cancelled"), facts.NodeCancelled()], "cancelled"),
        ([facts.NodeCancelled()], "cancelled"),
        ([answered(), facts.NodeFailed(code="refused", message="")], "refused"),
    ]
    for events, reason in ends:
        world = World()
        world.merge([asked()], said("cut"))
        voids = [line for line in world.merge(events) if "void" in line]
        assert voids == [f"a#1 void: {reason} -> None"], reason


def test_a_called_agent_that_failed_takes_back_its_own_words_only() -> None:
    world = World()
    world.merge([asked(), asked("a.1.1#1")], said("mine"), said("theirs", "a.1.1#1"))
    lines = world.merge([facts.SubagentFailed(invocation="a.1.1", code="refused", message="")])
    assert lines == ["a.1.1#1 void: refused -> None", "SubagentFailed"]


def test_words_of_a_turn_that_stays_in_the_conversation_are_not_taken_back() -> None:
    """REC-23: a tool round that is complete stays, whatever comes of the next request."""
    world = World()
    world.merge([asked()], said("let me look"))
    world.merge([answered(), asked("a#2")], said("cut", "a#2"))
    lines = world.merge([answered("a#2", "length"), reserved()])
    assert [line for line in lines if "void" in line] == ["a#2 void: length -> 2"]

    world = World()
    world.merge([asked()], said("let me look"))
    assert world.merge([answered(), facts.NodeCancelled()]) == ["ModelAnswered", "NodeCancelled"]


def test_an_accepted_output_is_not_taken_back() -> None:
    world = World()
    world.merge([asked()], said("good"))
    done = facts.NodeCompleted(output=Payload.of(1))
    assert world.merge([answered(), ACCEPTED, done, facts.NodeCancelled()]) == [
        "ModelAnswered",
        "OutputAccepted",
        "NodeCompleted",
        "NodeCancelled",
    ]
