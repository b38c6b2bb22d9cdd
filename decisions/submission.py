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
    SubagentCompleted,
)
from mulligan.events.payload import Payload, digest_of
from mulligan.projections.state import Invocation
from mulligan.providers.port import Answer
from mulligan.schemas.plan import AgentPlan

RejectionKind = Literal[
    "truncated", "refused", "invalid_json", "wrong_envelope", "schema_violation"
]


class Judged(msgspec.Struct, frozen=True):
    """What the log says of an output, and why it is none; None for one that is accepted."""

    facts: tuple[Fact, ...]
    failed: Failed | Refused | None = None


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
            return Judged(_accepted(invocation, verdict))
        case verdicts.TruncatedResponse(issues=issues):
            rejected = _rejected(invocation, submitted, "truncated", issues)
            return Judged(rejected, Failed("length", "the output is cut off"))
        case verdicts.InvalidJson(issues=issues):
            rejected = _rejected(invocation, submitted, "invalid_json", issues)
            return Judged(rejected, Failed("invalid_json", "the output is not JSON"))
        case verdicts.WrongEnvelope(issues=issues):
            rejected = _rejected(invocation, submitted, "wrong_envelope", issues)
            message = "the output is not in the form that was asked for"
            return Judged(rejected, Failed("wrong_envelope", message))
        case verdicts.SchemaViolation(issues=issues):
            rejected = _rejected(invocation, submitted, "schema_violation", issues)
            message = "the output does not fit its schema"
            return Judged(rejected, Failed("schema_violation", message))
        case verdicts.Refused(issues=issues):
            return Judged(_rejected(invocation, submitted, "refused", issues), Refused())
        case _:
            assert_never(verdict)


def _accepted(invocation: Invocation, verdict: Completed) -> tuple[Fact, ...]:
    output = Payload.of(verdict.output)
    accepted = OutputAccepted(
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
    return (accepted, ended)


def _rejected(
    invocation: Invocation,
    submitted: Submitted,
    kind: RejectionKind,
    issues: tuple[Issue, ...],
) -> tuple[Fact, ...]:
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
    rejected = OutputRejected(
        invocation=invocation.id,
        kind=kind,
        issues=told,
        digest=digest_of(text),
        bytes=len(text),
    )
    return (rejected,)
