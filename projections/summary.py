"""
A run in one row: what lists show, folded a few events at a time from where the row stands.
"""

from __future__ import annotations

import msgspec

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.projections.tally import counted, one_more, unknown_after


class RunSummary(msgspec.Struct, omit_defaults=True, kw_only=True):
    """
    A run as of `version`. Times are server milliseconds; `nodes` counts what has ended, with every
    instance of a `for_each` node counted on its own.
    """

    run: str
    version: int = 0
    last_event: str = ""
    status: str = "queued"
    reason: str | None = None
    detail: str = ""
    """of a run that is paused: what waits"""
    workflow: str = ""
    tags: tuple[str, ...] = ()
    tenant: str | None = None
    awaits_turn: bool = False
    """it has not begun, since its tenant has as many runs at once as it may"""
    requested_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    updated_ms: int = 0
    nodes: dict[str, int] = {}
    counts: dict[str, int] = {}
    """what went wrong and what was done about it, by `kind:reason`; see `projections/tally.py`"""
    unknown: tuple[str, ...] = ()
    """calls whose outcome is unknown"""
    unreadable: str | None = None
    """which event after `version` this code can't read, and why"""


_STATUS: dict[type[facts.Fact], str] = {
    facts.RunStarted: "running",
    facts.RunPaused: "paused",
    facts.RunResumed: "running",
    facts.RunCancelRequested: "cancelling",
    facts.RunCancelled: "cancelled",
    facts.RunCompleted: "completed",
    facts.RunFailed: "failed",
}
_GOES_ON = (
    facts.EffectReconciled,
    facts.InputProvided,
    facts.DecisionMade,
    facts.ToolApproved,
    facts.ToolDenied,
    facts.SignalTimedOut,
    facts.NodeStarted,
    facts.ModelRequested,
    facts.ToolStarted,
)
"""What shows that a paused run goes on, though nobody resumed it as a whole."""

_ENDED = ("cancelled", "completed", "failed")
_NODE_ENDS: dict[type[facts.Fact], str] = {
    facts.NodeCompleted: "completed",
    facts.NodeFailed: "failed",
    facts.NodeSkipped: "skipped",
    facts.NodeCancelled: "cancelled",
}


def evolve(summary: RunSummary, event: Envelope) -> None:
    """Take a summary one event further, in place."""
    fact = event.data
    kind = type(fact)
    if isinstance(fact, facts.RunRequested):
        summary.workflow, summary.tags, summary.tenant = fact.workflow, fact.tags, fact.tenant
        summary.requested_ms = event.time_ms
    if kind in (facts.TurnAwaited, facts.RunStarted, facts.RunCancelled):
        summary.awaits_turn = kind is facts.TurnAwaited
    if kind in _NODE_ENDS:
        how = _NODE_ENDS[kind]
        summary.nodes = {**summary.nodes, how: summary.nodes.get(how, 0) + 1}
    name = counted(fact)
    if name is not None:
        summary.counts = one_more(summary.counts, name)
    summary.unknown = unknown_after(summary.unknown, fact)
    _status(summary, event)
    summary.version, summary.last_event = event.version, event.id
    summary.updated_ms = event.time_ms


def _status(summary: RunSummary, event: Envelope) -> None:
    fact = event.data
    if summary.status in _ENDED:
        return
    if isinstance(fact, _GOES_ON):
        if summary.status == "paused":
            summary.status, summary.reason, summary.detail = "running", None, ""
        return
    status = _STATUS.get(type(fact))
    if status is None or (summary.status == "cancelling" and status not in _ENDED):
        return
    summary.status = status
    paused = fact if isinstance(fact, facts.RunPaused) else None
    summary.reason = paused.reason if paused else None
    summary.detail = paused.detail if paused else ""
    if status == "running" and summary.started_ms is None:
        summary.started_ms = event.time_ms
    if status in _ENDED:
        summary.ended_ms = event.time_ms
