"""
What facts about signals change in a run's state: who waits, and who takes which.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections.changes import Changes, goes_on, node_of, put_node, registering
from mulligan.projections.state import Node, RunState, Signal

CHANGES: Changes = {}
on = registering(CHANGES)


@on(facts.SignalAwaited)
def _awaited(state: RunState, event: Envelope, fact: facts.SignalAwaited) -> None:
    due_ms = event.time_ms + fact.timeout_ms if fact.timeout_ms is not None else None
    node = replace(node_of(state, event), timer_due_ms=due_ms)
    put_node(state, node)
    kept = next(
        (one for one in state.signals.values() if one.name == fact.name and not one.taken_by), None
    )
    if kept is not None:
        _take(state, node, kept)
    else:
        state.awaits[node.id] = fact.name


@on(facts.SignalReceived)
def _received(state: RunState, event: Envelope, fact: facts.SignalReceived) -> None:
    if fact.key in state.signals:
        return
    signal = state.signals[fact.key] = Signal(key=fact.key, name=fact.name, data=fact.data)
    waits = next((node for node, name in state.awaits.items() if name == fact.name), None)
    if waits is not None:
        del state.awaits[waits]
        _take(state, state.nodes[waits], signal)


@on(facts.SignalTimedOut)
def _timed_out(state: RunState, event: Envelope, fact: facts.SignalTimedOut) -> None:
    node = node_of(state, event)
    state.awaits.pop(node.id, None)
    _goes_on(state, node)


def _take(state: RunState, node: Node, signal: Signal) -> None:
    state.signals[signal.key] = replace(signal, taken_by=node.id)
    _goes_on(state, replace(node, signal=signal.key, timer_due_ms=None))


def _goes_on(state: RunState, node: Node) -> None:
    """A node that waited goes on; one that an operator has to see to does not by that."""
    if (node.status, node.reason) == ("paused", "awaiting_signal"):
        goes_on(state)
        node = replace(node, status="running", reason=None, detail="")
    put_node(state, node)
