"""
What an execution came to, as facts.
"""

from __future__ import annotations

from mulligan.decisions.decision import FunctionOutcome, ToolOutcome
from mulligan.events.facts import (
    Fact,
    ToolFailed,
    ToolOutcomeUnknown,
    ToolReceiptArrived,
    ToolSucceeded,
)
from mulligan.projections.state import Node


def receipt(outcome: ToolOutcome) -> Fact:
    """The fact that says what came of a tool; a `write` that timed out may still take effect."""
    if outcome.unknown:
        evidence = outcome.error.message if outcome.error else "no result"
        return ToolOutcomeUnknown(call_id=outcome.call_id, evidence=evidence)
    if outcome.error is not None:
        return ToolFailed(
            call_id=outcome.call_id,
            code=outcome.error.kind,
            message=outcome.error.message,
            duration_ms=outcome.duration_ms,
            execution=outcome.execution,
        )
    assert outcome.result is not None
    return ToolSucceeded(
        call_id=outcome.call_id, result=outcome.result, duration_ms=outcome.duration_ms
    )


def late_receipt(outcome: ToolOutcome) -> ToolReceiptArrived:
    """The fact that says it of a call that is another's by now, or whose run has ended."""
    error = outcome.error
    succeeded = outcome.result is not None
    return ToolReceiptArrived(
        call_id=outcome.call_id,
        execution=outcome.execution,
        outcome="succeeded" if succeeded else "unknown" if outcome.unknown else "failed",
        result=outcome.result,
        code=error.kind if error is not None else None,
        message=error.message if error is not None else None,
        duration_ms=outcome.duration_ms,
    )


def late_function_receipt(node: Node, outcome: FunctionOutcome) -> ToolReceiptArrived:
    """The same of a function node, whose node's id is the call's."""
    error = outcome.error
    succeeded = outcome.output is not None
    return ToolReceiptArrived(
        call_id=node.id,
        execution=node.attempt,
        outcome="succeeded" if succeeded else "unknown" if outcome.unknown else "failed",
        code=error.kind if error is not None else None,
        message=error.message if error is not None else None,
    )
