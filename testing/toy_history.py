"""
What must be true of a toy run's history, whatever happened to its workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mulligan.events.envelope import Envelope
from mulligan.events.facts import (
    InputProvided,
    InputRequested,
    NodeCancelled,
    NodeCompleted,
    NodeReady,
    RunCancelled,
    RunCancelRequested,
    RunCompleted,
    RunRequested,
    RunStarted,
    TimerFired,
    TimerSet,
    ToolFailed,
    ToolOutcomeUnknown,
    ToolStarted,
    ToolSucceeded,
)
from mulligan.events.store import Row
from mulligan.testing.toy_run import JOIN

ONCE = (
    RunRequested,
    RunStarted,
    RunCancelRequested,
    NodeReady,
    NodeCompleted,
    NodeCancelled,
    InputRequested,
)


def problems(row: Row | None, events: Sequence[Envelope], effects: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with an ended run: its row, its events, its calls' effects by id."""
    if row is None or row.phase != "closed":
        yield f"the run has not ended: {row}"
    if [event.version for event in events] != list(range(1, len(events) + 1)):
        yield "versions have gaps"
    yield from _more_than_once("event id", (event.id for event in events))
    yield from _more_than_once("fact", _facts(events, ONCE))
    answers = (e.data.request_id for e in events if isinstance(e.data, InputProvided))
    yield from _more_than_once("answer", answers)
    yield from _ends(events)
    yield from _calls(events, Counter(effects))
    yield from _order(events)


def _facts(events: Iterable[Envelope], kinds: tuple[type, ...]) -> Iterator[str]:
    return (f"{event.type} {event.node or ''}" for event in events if isinstance(event.data, kinds))


def _more_than_once(what: str, found: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(found).items():
        if count > 1:
            yield f"{what} {name} is there {count} times"


def _ends(events: Sequence[Envelope]) -> Iterator[str]:
    ends = [event for event in events if isinstance(event.data, RunCompleted | RunCancelled)]
    if len(ends) != 1:
        yield f"the run ended {len(ends)} times"
        return
    late = [event for event in events if event.version > ends[0].version]
    if not all(isinstance(event.data, ToolSucceeded) for event in late):
        yield "something but a receipt follows the end"
    completed = Counter(_facts(events, (NodeCompleted,)))
    ready = Counter(_facts(events, (NodeReady,)))
    if isinstance(ends[0].data, RunCompleted) and len(completed) != len(ready):
        yield f"the run completed with nodes missing: {sorted(completed)} of {sorted(ready)}"


def _calls(events: Sequence[Envelope], effects: Counter[str]) -> Iterator[str]:
    intents = Counter(e.data.call_id for e in events if isinstance(e.data, ToolStarted))
    succeeded = Counter(e.data.call_id for e in events if isinstance(e.data, ToolSucceeded))
    other = Counter(
        e.data.call_id for e in events if isinstance(e.data, ToolFailed | ToolOutcomeUnknown)
    )
    yield from _more_than_once("intent", intents.elements())
    yield from _more_than_once("success", succeeded.elements())
    yield from _more_than_once("other outcome", other.elements())
    yield from _more_than_once("effect", effects.elements())
    for call in intents:
        if not succeeded[call] and not other[call]:
            yield f"call {call} has no outcome"
    for call in effects.keys() - intents.keys():
        yield f"effect {call} has no intent"
    for call in succeeded.keys() - effects.keys():
        yield f"success {call} has no effect"


def _order(events: Sequence[Envelope]) -> Iterator[str]:
    done: set[str] = set()
    asked: set[str] = set()
    nodes: set[str] = set()
    timed: set[str] = set()
    for event in events:
        node = event.node or ""
        match event.data:
            case RunRequested(plan=plan):
                nodes = set(plan["nodes"])
            case NodeReady() if node == JOIN and not nodes <= done:
                yield "the join was ready before its needs"
            case NodeCompleted():
                done.add(node)
            case InputRequested():
                asked.add(node)
            case InputProvided(request_id=request) if request not in asked:
                yield f"an answer to {request} before its question"
            case TimerSet(purpose="backoff"):
                timed.add(node)
            case TimerFired(purpose="backoff") if node not in timed:
                yield f"a timer of {node} fired before it was set"
            case _:
                pass
    yield from _more_than_once("timer", _facts(events, (TimerFired,)))
