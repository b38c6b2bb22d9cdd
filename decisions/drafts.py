"""
Drafts of a repair loop: what the log says of one, and which is the best.
"""

from __future__ import annotations

import msgspec

from mulligan.decisions.decision import Context, Step
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import Fact, NodeFailed, QualityAssessed, QualityFailed
from mulligan.events.payload import Payload
from mulligan.projections.state import AssessedDraft, Node, Repair
from mulligan.quality.report import Quality, quality_of

VETOES, REVIEW = "vetoes", "review"
"""What a repair is for where no gate has failed."""


def about(node: Node, fact: Fact) -> NewEvent:
    """A fact about a repair node."""
    return NewEvent(fact, node=node.id, attempt=node.attempt or None)


def fail(node: Node, code: str, message: str) -> Step:
    """The loop can't go on: its node fails, with the error as it is (no verdict on the draft)."""
    return Step((about(node, NodeFailed(code=code, message=message)),))


def assessed(
    node: Node, quality: Quality, draft: Payload, *, iteration: int, taken_over: bool = False
) -> NewEvent:
    """What the gates said of the draft of a round (0: before any)."""
    report = msgspec.structs.replace(quality, iteration=iteration)
    fact = QualityAssessed(
        iteration=iteration,
        draft=draft.digest,
        passed=quality.overall_passed,
        score=quality.overall_score,
        quality=Payload.of(msgspec.to_builtins(report)),
        content=draft,
        vetoes=len(quality.vetoes_triggered),
        taken_over=taken_over,
    )
    return about(node, fact)


def not_passed(node: Node, quality: Quality, *, iteration: int) -> NewEvent:
    """A draft did not pass, and what its repair is for."""
    return about(node, QualityFailed(iteration=iteration, gate=quality.trigger or VETOES))


def quality_in(draft: AssessedDraft, context: Context) -> Quality:
    """The report of a draft in the log."""
    return quality_of(context.value_of(draft.quality), "the log")


def best_of(repair: Repair) -> AssessedDraft:
    """
    The best draft, the one before any repair included: the highest score; among equals the one with
    fewer vetoes, then the earlier (RPR-10).
    """
    at = max(
        range(len(repair.drafts)),
        key=lambda i: (repair.drafts[i].score, -repair.drafts[i].vetoes, -i),
    )
    return repair.drafts[at]
