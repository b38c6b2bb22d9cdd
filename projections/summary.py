"""
A run in one row: what lists show, folded a few events at a time from where the row stands.
"""

from __future__ import annotations

import msgspec

from mulligan.events import facts
from mulligan.projections.row_changes import Event, by_tag, part_of
from mulligan.projections.tally import COUNTED, counted, one_more, unknown_after


# Rows refer to nothing that refers to them, so the garbage collector need not look at them (gc): a
# list holds 100,000, and looking took longer than decoding them.
class RunSummary(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
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
_GOES_ON: tuple[type[facts.Fact], ...] = (
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
_OF_CALLS: tuple[type[facts.Fact], ...] = (
    facts.ToolOutcomeUnknown,
    facts.EffectReconciled,
    facts.ToolSucceeded,
    facts.ToolFailed,
)


class _Asked(msgspec.Struct):
    """Of `RunRequested`, without the plan."""

    workflow: str
    tags: tuple[str, ...] = ()
    tenant: str | None = None


def end_with(summary: RunSummary, event: Event) -> None:
    """The last event that a summary holds."""
    summary.version, summary.last_event = event.version, event.id
    summary.updated_ms = event.time_ms


def _requested(summary: RunSummary, event: Event) -> None:
    asked = part_of(event, _Asked)
    summary.workflow, summary.tags, summary.tenant = asked.workflow, asked.tags, asked.tenant
    summary.requested_ms = event.time_ms


def _count(summary: RunSummary, event: Event) -> None:
    name = counted(event.data)
    if name is not None:
        summary.counts = one_more(summary.counts, name)


def _call(summary: RunSummary, event: Event) -> None:
    if summary.unknown or event.type == facts.ToolOutcomeUnknown.__name__:
        summary.unknown = unknown_after(summary.unknown, event.data)


def _node_ended(summary: RunSummary, event: Event) -> None:
    how = _NODE_HOW[event.type]
    summary.nodes = {**summary.nodes, how: summary.nodes.get(how, 0) + 1}


def _goes_on(summary: RunSummary, event: Event) -> None:
    if summary.status == "paused":
        summary.status, summary.reason, summary.detail = "running", None, ""


def _turn(summary: RunSummary, event: Event) -> None:
    summary.awaits_turn = event.type == facts.TurnAwaited.__name__


def _status(summary: RunSummary, event: Event) -> None:
    status = _STATUS_AFTER[event.type]
    if summary.status in _ENDED or (summary.status == "cancelling" and status not in _ENDED):
        return
    paused = event.data if status == "paused" else None
    summary.status, summary.reason, summary.detail = status, None, ""
    if isinstance(paused, facts.RunPaused):
        summary.reason, summary.detail = paused.reason, paused.detail
    if status == "running" and summary.started_ms is None:
        summary.started_ms = event.time_ms
    if status in _ENDED:
        summary.ended_ms = event.time_ms


_NODE_HOW = {kind.__name__: how for kind, how in _NODE_ENDS.items()}
_STATUS_AFTER = {kind.__name__: status for kind, status in _STATUS.items()}
CHANGES = by_tag(
    (_requested, (facts.RunRequested,)),
    (_count, COUNTED),
    (_call, _OF_CALLS),
    (_node_ended, tuple(_NODE_ENDS)),
    (_goes_on, _GOES_ON),
    (_turn, (facts.TurnAwaited, facts.RunStarted, facts.RunCancelled)),
    (_status, tuple(_STATUS)),
)
"""
What events change, by tag, in this order: what reads its fact comes first, so that an event that
can't be read has changed nothing.
"""
