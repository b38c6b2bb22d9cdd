"""
What is told within a span: facts that neither begin nor end one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact
from mulligan.events.ids import invocation_of_call
from mulligan.projections.spans import (
    RUN,
    Attribute,
    Moment,
    RunSpans,
    invocation_key,
    node_key,
)

MOST_MOMENTS = 100
"""Kept of a span: what a long run's agents were told is in its log."""

TOLD: dict[type[Fact], Callable[[Any], tuple[str | None, dict[str, Attribute | None]]]] = {
    facts.RunPaused: lambda f: (RUN, {"reason": f.reason}),
    facts.RunResumed: lambda f: (RUN, {}),
    facts.RunCancelRequested: lambda f: (RUN, {}),
    facts.NodePaused: lambda f: (invocation_key(f.invocation), {"reason": f.reason}),
    facts.NodeStarted: lambda f: (None, {}),
    facts.TimerSet: lambda f: (
        invocation_key(f.invocation) if f.invocation else None,
        {"purpose": f.purpose, "delay_ms": f.delay_ms, "cause": f.cause.kind if f.cause else None},
    ),
    facts.SlotAwaited: lambda f: (invocation_key(f.invocation), {"lane": f.lane}),
    facts.AllowanceReserved: lambda f: (
        invocation_key(f.invocation),
        {"reason": f.reason, "used": f.used, "limit": f.limit, "request_id": f.request_id},
    ),
    facts.AllowanceExhausted: lambda f: (invocation_key(f.invocation), {"reason": f.reason}),
    facts.OutputRejected: lambda f: (invocation_key(f.invocation), {"kind": f.kind}),
    facts.OutputAccepted: lambda f: (invocation_key(f.invocation), {"steps": f.steps}),
    facts.HistoryCompacted: lambda f: (invocation_key(f.invocation), {"calls": len(f.call_ids)}),
    facts.DecompositionRequested: lambda f: (invocation_key(f.invocation), {}),
    facts.ToolApprovalRequested: lambda f: _about_call(f.call_id),
    facts.ToolApproved: lambda f: _about_call(f.call_id),
    facts.ToolDenied: lambda f: _about_call(f.call_id),
    facts.ToolReceiptArrived: lambda f: _about_call(f.call_id),
    facts.EffectReconciled: lambda f: _about_call(f.call_id),
    facts.InputRequested: lambda f: _about_call(f.request_id),
    facts.InputProvided: lambda f: _about_call(f.request_id),
    facts.SignalAwaited: lambda f: (None, {"signal": f.name, "timeout_ms": f.timeout_ms}),
    facts.SignalReceived: lambda f: (RUN, {"signal": f.name}),
    facts.SignalTimedOut: lambda f: (None, {"signal": f.name, "outcome": f.outcome}),
    facts.DecisionRequested: lambda f: (None, {}),
    facts.DecisionMade: lambda f: (None, {"decision": f.decision}),
    facts.QualityAssessed: lambda f: (
        None,
        {"iteration": f.iteration, "passed": f.passed, "score": f.score},
    ),
    facts.QualityFailed: lambda f: (None, {"iteration": f.iteration, "gate": f.gate}),
    facts.ReviewReceived: lambda f: (None, {"verdict": f.verdict}),
    facts.RepairEnded: lambda f: (None, {"outcome": f.outcome}),
}
"""Facts that are told within the span of that key, or that of their node; others are not told."""


def _about_call(call_id: str) -> tuple[str, dict[str, Attribute | None]]:
    return invocation_key(invocation_of_call(call_id)), {"call_id": call_id}


def tell(
    spans: RunSpans, event: Envelope, told: tuple[str | None, dict[str, Attribute | None]]
) -> None:
    """Tell it within its span, if that is under way."""
    key, attributes = told
    span = spans.open.get(key or node_key(event.node or ""))
    if span is None or len(span.moments) >= MOST_MOMENTS:
        return
    present = {f"mulligan.{name}": value for name, value in attributes.items() if value is not None}
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", event.type).lower()
    span.moments.append(Moment(name=f"mulligan.{name}", time_ms=event.time_ms, attributes=present))
