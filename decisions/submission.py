"""
A final output that was handed in: judged by the completion protocol, and what the log says of it.
"""

from __future__ import annotations

from typing import Literal, assert_never

import msgspec

from mulligan.completion import verdict as verdicts
from mulligan.completion.protocol import complete
from mulligan.completion.verdict import Completed, Issue
from mulligan.decisions.turn import Failed, Refused, Submitted, evidence
from mulligan.events.facts import (
    Fact,
    NodeCompleted,
    OutputAccepted,
    OutputIssue,
    OutputRejected,
    RepairableKind,
    SubagentCompleted,
)
from mulligan.events.payload import Payload, digest_of
from mulligan.projections.state import Invocation
from mulligan.providers.port import Answer
from mulligan.schemas.plan import AgentPlan

RejectionKind = Literal[
    "truncated", "refused", "invalid_json", "wrong_envelope", "schema_violation"
]


MAX_CANDIDATE_BYTES = 65_536
"""A larger candidate is not repaired by the overseer (OVR-3)."""

NO_OUTPUT: dict[RepairableKind, str] = {
    "invalid_json": "the output is not JSON",
    "wrong_envelope": "the output is not in the form that was asked for",
    "schema_violation": "the output does not fit its schema",
}
"""What is told of an output that was rejected as such."""

NOT_CHOSEN = frozenset(
    ["several_candidates", "fragment", "labelled_as_example", "labelled_as_field", "call_in_prose"]
)
"""Codes of issues with a text that may hold JSON, none of which is taken as the output."""


class Judged(msgspec.Struct, frozen=True):
    """
    What the log says of an output, and why it is none; None for one that is accepted. `repairable`
    is what it was rejected as, if an overseer could make something of it.
    """

    facts: tuple[Fact, ...]
    failed: Failed | Refused | None = None
    repairable: RepairableKind | None = None


def judged(
    agent: AgentPlan,
    invocation: Invocation,
    answer: Answer,
    submitted: Submitted,
    cap_sent: int | None,
) -> Judged:
    """Judge a candidate of `agent`, answered under an output cap of `cap_sent` tokens."""
    verdict = complete(
        submitted.raw,
        agent.output_schema,
        evidence(answer, cap_sent),
        mode="prompt" if submitted.call is None else "tool",
        accept_missing_closers=agent.accept_missing_closers,
    )
    match verdict:
        case Completed():
            return Judged(accepted(invocation, verdict))
        case verdicts.TruncatedResponse(issues=issues):
            rejected = _rejected(invocation, submitted, "truncated", issues)
            return Judged((rejected,), Failed("length", "the output is cut off"))
        case verdicts.InvalidJson(issues=issues):
            return _unfit(invocation, submitted, "invalid_json", issues)
        case verdicts.WrongEnvelope(issues=issues):
            return _unfit(invocation, submitted, "wrong_envelope", issues)
        case verdicts.SchemaViolation(issues=issues):
            return _unfit(invocation, submitted, "schema_violation", issues)
        case verdicts.Refused(issues=issues):
            return Judged((_rejected(invocation, submitted, "refused", issues),), Refused())
        case _:
            assert_never(verdict)


def accepted(invocation: Invocation, verdict: Completed) -> tuple[Fact, ...]:
    """What the log says of an output that is the invocation's: it ends with it."""
    output = Payload.of(verdict.output)
    taken = OutputAccepted(
        invocation=invocation.id,
        digest=output.digest,
        assistant_message=verdict.assistant_message,
        steps=tuple(step.name for step in verdict.steps),
        coercions=tuple(f"{one.rule} {one.path}" for one in verdict.coercions),
    )
    ended: Fact = (
        NodeCompleted(output=output)
        if invocation.parent is None
        else SubagentCompleted(
            invocation=invocation.id, output=output, assistant_message=verdict.assistant_message
        )
    )
    return (taken, ended)


def _unfit(
    invocation: Invocation,
    submitted: Submitted,
    kind: RepairableKind,
    issues: tuple[Issue, ...],
) -> Judged:
    rejected = _rejected(invocation, submitted, kind, issues)
    small = rejected.bytes <= MAX_CANDIDATE_BYTES
    failed = Failed(kind, why_rejected(kind, rejected.issues))
    return Judged((rejected,), failed, kind if small else None)


def why_rejected(kind: RepairableKind, issues: tuple[OutputIssue, ...]) -> str:
    """What is told of an output that was rejected for `issues`; it quotes nothing of it."""
    for issue in issues:
        if issue.code in NOT_CHOSEN:
            return f"there is no output to take: {issue.message}"
    return NO_OUTPUT[kind]


def _rejected(
    invocation: Invocation,
    submitted: Submitted,
    kind: RejectionKind,
    issues: tuple[Issue, ...],
) -> OutputRejected:
    """The candidate is named by digest and size; its issues quote nothing of it (OVR-10)."""
    text = submitted.raw.encode("utf-8", "surrogatepass")
    told = tuple(
        OutputIssue(
            code=issue.code,
            path=issue.path,
            schema_path=issue.schema_path,
            message=issue.message,
        )
        for issue in issues
    )
    return OutputRejected(
        invocation=invocation.id,
        kind=kind,
        issues=told,
        digest=digest_of(text),
        bytes=len(text),
    )
