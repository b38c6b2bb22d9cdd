"""
Which writes a witness outside the log knows to have begun, and the log does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from mulligan.events.envelope import Envelope
from mulligan.events.facts import NodeStarted, ToolStarted, ToolStartLost
from mulligan.events.intents import Intent
from mulligan.projections.calls import known_call
from mulligan.projections.state import RunState


def lost_starts(state: RunState, intents: Iterable[Intent]) -> list[Intent]:
    """Those whose start is not in the log as it was noted, and of which the log does not know."""
    return [one for one in intents if not _is_known(state, one)]


def _is_known(state: RunState, intent: Intent) -> bool:
    if intent.event in started(state, intent.call_id):
        return True
    return any(
        (lost.call_id, lost.execution, lost.event)
        == (intent.call_id, intent.execution, intent.event)
        for lost in state.lost_starts
    )


def started(state: RunState, call_id: str) -> tuple[str, ...]:
    """The events that announced executions of a write, a call's or a function node's, in order."""
    if call_id in state.nodes:
        return state.nodes[call_id].write_starts
    call = known_call(state, call_id)
    return call.write_starts if call is not None else ()


def lacking(events: Iterable[Envelope], intents: Iterable[Intent]) -> list[Intent]:
    """Those whose start a history lacks, whether or not it says so itself."""
    there = {event.id for event in events if isinstance(event.data, ToolStarted | NodeStarted)}
    return [one for one in intents if one.event not in there]


def fact_of(intent: Intent) -> ToolStartLost:
    """What the log is told of a start that it lacks."""
    return ToolStartLost(
        call_id=intent.call_id,
        execution=intent.execution,
        event=intent.event,
        code=intent.code,
        digest=intent.digest,
        at_ms=intent.at_ms,
    )


def told(intent: Intent | ToolStartLost) -> str:
    """A start in words: `a.1.1 (execution 1 of shop:send, noted at 2026-01-01 12:00:00 UTC)`."""
    code = f" of {intent.code}" if intent.code else ""
    moment = datetime.fromtimestamp(intent.at_ms / 1_000, UTC)
    noted = f", noted at {moment:%Y-%m-%d %H:%M:%S} UTC" if intent.at_ms else ", noted unreadably"
    return f"{intent.call_id} (execution {intent.execution}{code}{noted})"
