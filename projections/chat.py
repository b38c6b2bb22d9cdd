"""
A run as a conversation: what people would read of it, and nothing else.

The prompts, what agents said and called, what tools answered, questions and answers, and outputs.
What was rejected, cut off or sent again is not in it (REC-11), nor is anything of a repair by the
overseer (OVR-7): a repaired output stands there like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.ids import invocation_of_call, node_of_invocation
from mulligan.events.payload import Payload, canonical
from mulligan.projections import run as runs
from mulligan.projections.state import Call, Invocation, RunState

EXCERPT_CHARACTERS = 1_000
"""Of a call's arguments and result no more is shown; a longer text says that it was cut."""

EntryKind = Literal["system", "prompt", "said", "call", "question", "answer", "message", "output"]
ValueOf = Callable[[Payload], Any]
Filled = Callable[[RunState, str, str], str]
"""A node's prompt or system text, with its placeholders filled in: of state, node and template."""


class ChatCall(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    A call and what became of it. `name` is a tool's, or with `of` "agent" a called agent's;
    `result` and `arguments` are excerpts, the result of a failed call its code and message.
    """

    call_id: str
    name: str
    of: Literal["tool", "agent"]
    status: str
    arguments: str = ""
    result: str | None = None


class ChatEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    Something that was said. `at_ms` counts from the run's request; `agent` is a called agent's
    name, else the `node` itself speaks. An entry of kind "call" has a `call` instead of a `text`.
    """

    version: int
    kind: EntryKind
    at_ms: int
    node: str
    invocation: str | None = None
    agent: str | None = None
    text: str = ""
    call: ChatCall | None = None


class Chat(msgspec.Struct, kw_only=True):
    """A run's conversations, in the order in which things were said."""

    run: str
    workflow: str = ""
    status: str = "queued"
    reason: str | None = None
    entries: list[ChatEntry] = []


def fold(run: str, events: Iterable[Envelope], value_of: ValueOf, filled: Filled) -> Chat:
    """
    The chat of `run` after `events`, from its first one on.

    Args:
        value_of: the value of a payload, wherever it lies.
        filled: fills in a template as the node sees it; `decisions.scope.prompt`.
    """
    state = RunState(run=run)
    reader = _Reader(state, value_of, filled)
    said: list[ChatEntry] = []
    for event in events:
        runs.evolve(state, event)
        said += reader.entries(event)
    return Chat(
        run=run,
        workflow=state.workflow,
        status=state.status,
        reason=state.reason,
        entries=[reader.answered(entry) for entry in said],
    )


class _Reader:
    """What each event adds, read against the state right after it."""

    def __init__(self, state: RunState, value_of: ValueOf, filled: Filled) -> None:
        self._state = state
        self._value_of = value_of
        self._filled = filled
        self._asked: dict[str, str] = {}

    def entries(self, event: Envelope) -> Iterator[ChatEntry]:
        fact = event.data
        match fact:
            case facts.ModelRequested(invocation=invocation):
                asker = self._state.invocations.get(invocation)  # None: the overseer
                if asker is not None and asker.recovery.requests == 1:
                    yield from self._opening(event, asker)
            case facts.ModelAnswered(text=Payload() as text) if fact.calls:
                yield self._entry(event, "said", fact.invocation, self._text(text))
            case facts.ToolRequested():
                yield self._called(event, fact.call_id, fact.tool, "tool")
            case facts.SubagentCalled():
                yield self._called(event, fact.invocation, fact.agent, "agent")
            case facts.InputRequested():
                self._asked[fact.request_id] = fact.invocation
                yield self._entry(event, "question", fact.invocation, _question(fact))
            case facts.InputProvided(request_id=request) if request in self._asked:
                answer = self._text(fact.answer)
                yield self._entry(event, "answer", self._asked.pop(request), answer)
            case facts.OutputAccepted(assistant_message=str(message)):
                yield self._entry(event, "message", fact.invocation, message)
            case facts.SubagentCompleted():
                yield self._entry(event, "output", fact.invocation, self._text(fact.output))
            case facts.NodeCompleted() if event.node and self._speaks(event.node):
                yield self._entry(event, "output", event.node, self._text(fact.output))
            case _:
                pass

    def answered(self, entry: ChatEntry) -> ChatEntry:
        """An entry of a call, with what has become of it by now."""
        if entry.call is None:
            return entry
        caller = self._state.invocations[invocation_of_call(entry.call.call_id)]
        call = caller.calls[entry.call.call_id]
        shown = replace(
            entry.call,
            status=call.status,
            arguments=_excerpt(self._text(call.arguments)),
            result=self._result(call),
        )
        return replace(entry, call=shown)

    def _opening(self, event: Envelope, invocation: Invocation) -> Iterator[ChatEntry]:
        """The node's own prompt; of a called agent, its instructions and what it was given."""
        agent = self._state.agent_of(invocation)
        node = node_of_invocation(invocation.id)
        systems = [self._filled(self._state, node, agent.system)] if agent.system else []
        if invocation.agent is not None:
            systems.insert(0, agent.prompt)
        if invocation.agent is None and invocation.part is None:
            prompt = self._filled(self._state, node, agent.prompt)
        else:
            prompt = self._text(invocation.input) if invocation.input is not None else ""
        for system in systems:
            yield self._entry(event, "system", invocation.id, system)
        yield self._entry(event, "prompt", invocation.id, prompt)

    def _called(
        self, event: Envelope, call_id: str, name: str, of: Literal["tool", "agent"]
    ) -> ChatEntry:
        caller = invocation_of_call(call_id)
        call = ChatCall(call_id=call_id, name=name, of=of, status="requested")
        return replace(self._entry(event, "call", caller, ""), call=call)

    def _entry(self, event: Envelope, kind: EntryKind, speaker: str, text: str) -> ChatEntry:
        invocation = self._state.invocations.get(speaker)
        return ChatEntry(
            version=event.version,
            kind=kind,
            at_ms=event.time_ms - (self._state.requested_ms or event.time_ms),
            node=node_of_invocation(speaker),
            invocation=invocation.id if invocation is not None else None,
            agent=invocation.agent if invocation is not None else None,
            text=text,
        )

    def _speaks(self, node: str) -> bool:
        """All but a `for_each` node, whose output its instances have said."""
        found = self._state.nodes.get(node)
        return found is not None and found.fan_out is None

    def _result(self, call: Call) -> str | None:
        if call.result is not None:
            return _excerpt(self._text(call.result))
        return _excerpt(f"{call.error.kind}: {call.error.message}") if call.error else None

    def _text(self, payload: Payload) -> str:
        value = self._value_of(payload)
        return value if isinstance(value, str) else canonical(value).decode()


def _question(fact: facts.InputRequested) -> str:
    lines = [fact.message] if fact.message else []
    for one in fact.questions:
        lines.append(f"{one['id']} [{one['header']}]: {one['question']}")
        lines += [f"- {option['label']}: {option['description']}" for option in one["options"]]
    return "\n".join(lines)


def _excerpt(text: str) -> str:
    if len(text) <= EXCERPT_CHARACTERS:
        return text
    return f"{text[:EXCERPT_CHARACTERS]} … [{len(text):,} characters in all]"
