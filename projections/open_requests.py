"""
What waits for a person in a run: agents' questions, and calls that want approval.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mulligan.events.facts import EffectClass
from mulligan.events.ids import node_of_invocation
from mulligan.events.payload import Payload
from mulligan.projections.calls import ASK_FREELY, ASK_QUESTIONS
from mulligan.projections.state import Call, Invocation, RunState

EXCERPT_CHARACTERS = 200
"""Of a question no more stands in a line of its own among others."""


class Option(msgspec.Struct, frozen=True):
    """One of the answers that a question suggests."""

    label: str
    description: str


class Question(msgspec.Struct, frozen=True):
    """One question of several: its answer is the label of an option, or free text."""

    id: str
    header: str
    question: str
    options: tuple[Option, ...]


class OpenRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    Something that waits for a person, or for a signal. `id` is what `answer --request`, `approve`
    and `deny` name; `agent` is a called agent's name, else the node's own agent asks. An `input`
    has a `message` that wants free text, or `questions`; an `approval` has the `tool`, its effect,
    its arguments; a `signal` (its id is the node's) has the name that is sent, the schema of its
    data, and when the wait ends, in server milliseconds.
    """

    kind: Literal["input", "approval", "signal"]
    id: str
    node: str
    agent: str | None = None
    message: str | None = None
    questions: tuple[Question, ...] = ()
    tool: str | None = None
    effect: EffectClass | None = None
    arguments: Payload | None = None
    signal: str | None = None
    data_schema: dict[str, Any] | None = None
    until_ms: int | None = None

    @property
    def line(self) -> str:
        """What is wanted, in a line."""
        if self.kind == "signal":
            return f"{self.node} waits for the signal {self.signal!r}"
        if self.kind == "approval":
            return f"{self.tool} ({self.id}, {self.effect}) waits for approval"
        text = self.message or " | ".join(one.question for one in self.questions)
        return f"{self.id} asks: {excerpt(text)}"


def open_requests(state: RunState) -> tuple[OpenRequest, ...]:
    """What waits for a person in a run that has not ended, in the order in which agents began."""
    if state.ended or state.status == "cancelling":
        return ()
    signals = (_signal_of(state, node, name) for node, name in state.awaits.items())
    return (*_of_people(state), *signals)


def _of_people(state: RunState) -> tuple[OpenRequest, ...]:
    return tuple(
        request_of(one, call)
        for one in state.invocations.values()
        if one.status in ("active", "paused")
        for call in one.calls.values()
        if call.status in ("awaiting_input", "awaiting_approval")
    )


def request_of(invocation: Invocation, call: Call) -> OpenRequest:
    """What a call asks, or asked, of a person."""
    node = node_of_invocation(invocation.id)
    if call.name not in (ASK_FREELY, ASK_QUESTIONS):
        return OpenRequest(
            kind="approval",
            id=call.id,
            node=node,
            agent=invocation.agent,
            tool=call.name,
            effect=call.effect,
            arguments=call.arguments,
        )
    given: dict[str, Any] = call.arguments.value  # a question is never stored beside its event
    return OpenRequest(
        kind="input",
        id=call.id,
        node=node,
        agent=invocation.agent,
        message=given.get("assistant_message"),
        questions=msgspec.convert(given.get("questions", ()), tuple[Question, ...]),
    )


def _signal_of(state: RunState, node: str, name: str) -> OpenRequest:
    plan = state.wait_of(node)
    return OpenRequest(
        kind="signal",
        id=node,
        node=node,
        signal=name,
        data_schema=plan.schema if plan is not None else None,
        until_ms=state.nodes[node].timer_due_ms,
    )


def excerpt(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT_CHARACTERS else f"{line[:EXCERPT_CHARACTERS]} …"
