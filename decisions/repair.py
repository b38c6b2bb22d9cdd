"""
The repair loop of a draft, one step at a time: judge, pick a level, redo, judge again (RPR-5…13).

    no draft yet         the gates judge the node's draft; the node's own task does so
    passed               an independent review, if the node names a reviewer; then the end
    failed or rejected   the next level, if rounds and money allow; from here on the repair
                         orchestrator's task goes on
    a round under way    its agents work, stage after stage, until `rework` gives a new draft
    nothing left         a person decides: accept, abort, or take over
"""

from __future__ import annotations

from typing import Any, Literal, assert_never

from mulligan.decisions import rounds, scope
from mulligan.decisions.decision import Context, DraftOutcome, JudgeDraft, Outcome, Release, Step
from mulligan.decisions.drafts import (
    REVIEW,
    about,
    assessed,
    best_of,
    fail,
    not_passed,
    quality_in,
)
from mulligan.decisions.rounds import HaltReason, plan_of
from mulligan.errors import ExpressionFailed, InvalidInput
from mulligan.events.facts import (
    DecisionRequested,
    Fact,
    HandedOver,
    NodeCompleted,
    NodeFailed,
    NodePaused,
    QualityFailed,
    RepairEnded,
    ReviewReceived,
    ReviewVerdict,
    SubagentCalled,
)
from mulligan.events.ids import call_id
from mulligan.events.payload import Payload
from mulligan.projections.state import ANSWERED_CALL, AssessedDraft, Node, Repair, RunState
from mulligan.quality.report import quality_of
from mulligan.schemas.references import parse_reference, resolve

APPROVED: tuple[ReviewVerdict, ...] = ("approved", "approved_with_minor_suggestions")

SAY_HALT: dict[HaltReason, str] = {
    "rounds": "all rounds are used up",
    "budget": "another round could cost more than the budget allows",
    "level_5_failed": "it failed from scratch too",
    "no_action": "no level has anything left to act on",
}


def proceed(state: RunState, node: Node, context: Context, outcome: Outcome | None) -> Step:
    """The next step of a repair node that has started and not ended."""
    if isinstance(outcome, DraftOutcome):
        return _came(state, node, context, outcome)
    if node.status == "paused":
        return Step(release=Release("wait"))
    repair = state.repairs[node.id]
    if repair.decided is not None:
        return _decided(state, node, repair, context)
    if not repair.drafts:
        return _judge_first(state, node, context)
    if repair.open is not None:
        return rounds.go_on(state, node, repair, context)
    if repair.trigger is not None:
        return _next_round(state, node, repair, context)
    newest = repair.drafts[-1]
    if newest.passed:
        return _review(state, node, repair, context)
    return Step((not_passed(node, quality_in(newest, context), iteration=newest.iteration),))


# --- Judging -------------------------------------------------------------------------------------


def _judge_first(state: RunState, node: Node, context: Context) -> Step:
    """
    The report on the first draft: the one that came with it, else that of the gates. A report made
    elsewhere may fail a draft; to pass it, the gates have to say so.
    """
    plan = plan_of(state, node)
    try:
        draft = _given(state, node, context, plan.draft)
        report = _given(state, node, context, plan.quality) if plan.quality is not None else None
        quality = quality_of(report, plan.quality or "") if report is not None else None
        if quality is None or quality.overall_passed:
            return _judge(state, node, context, draft)
    except ExpressionFailed as error:
        return fail(node, "expression_failed", str(error))
    except InvalidInput as error:
        return fail(node, "invalid_quality", str(error))
    return Step((assessed(node, quality, Payload.of(draft), iteration=0),))


def _given(state: RunState, node: Node, context: Context, path: str) -> Any:
    """What the node is given at a reference."""
    reference = parse_reference(path)
    assert reference is not None
    values = scope.values(state, node.id, [reference.name], context.value_of)
    return resolve(reference, values)


def _judge(state: RunState, node: Node, context: Context, draft: Any) -> Step:
    gates = plan_of(state, node).gates
    values = scope.values(state, node.id, gates.arguments, context.value_of)
    return Step(effect=JudgeDraft(node=node.id, gates=gates, values={**values, "draft": draft}))


def _came(state: RunState, node: Node, context: Context, outcome: DraftOutcome) -> Step:
    """What plug-ins said, of the first draft, of one that was handed in, or of a round's."""
    repair = state.repairs[node.id]
    if outcome.error is not None:
        return fail(node, outcome.error.kind, outcome.error.message)
    try:
        if outcome.answer is not None:
            return rounds.answered(state, node, repair, context, outcome)
        quality = quality_of(outcome.quality, plan_of(state, node).gates.call.path)
    except InvalidInput as error:
        return fail(node, "invalid_workload", str(error))
    handed_in = repair.decided.draft if repair.decided is not None else None
    first = plan_of(state, node).draft
    draft = handed_in or Payload.of(_given(state, node, context, first))
    event = assessed(
        node, quality, draft, iteration=repair.rounds, taken_over=handed_in is not None
    )
    return Step((event,))


# --- The next round ------------------------------------------------------------------------------


def _next_round(state: RunState, node: Node, repair: Repair, context: Context) -> Step:
    if repair.drafts[-1].taken_over:
        return Step(_ask_person(node, repair, "the draft that was handed in did not pass"))
    chosen = rounds.choose(state, node, repair, context)
    if isinstance(chosen, Step):
        return chosen
    ended = RepairEnded(outcome="exhausted" if chosen == "rounds" else "halted", halt_reason=chosen)
    asked = _ask_person(node, repair, f"could not converge: {SAY_HALT[chosen]}")
    return Step((about(node, ended), *asked))


def _ask_person(node: Node, repair: Repair, why: str) -> tuple[Any, ...]:
    best = best_of(repair)
    detail = f"{why}; the best draft is that of round {best.iteration}, score {best.score:g}"
    request = DecisionRequested(
        request_id=f"{node.id}.decision.{repair.decisions + 1}", detail=detail, draft=best.digest
    )
    paused = NodePaused(reason="awaiting_decision", invocation=node.id, detail=detail)
    return about(node, request), about(node, paused)


def _decided(state: RunState, node: Node, repair: Repair, context: Context) -> Step:
    decided = repair.decided
    assert decided is not None
    match decided.decision:
        case "accept":
            return _end(node, repair, context, best_of(repair), "accepted")
        case "abort":
            ended = about(node, RepairEnded(outcome="aborted"))
            message = "a person decided to abort; the drafts are in the log"
            return Step((ended, about(node, NodeFailed(code="repair_aborted", message=message))))
        case "take_over":
            assert decided.draft is not None
            return _judge(state, node, context, context.value_of(decided.draft))
        case _:
            assert_never(decided.decision)


# --- Review and end ------------------------------------------------------------------------------


def _review(state: RunState, node: Node, repair: Repair, context: Context) -> Step:
    """What passed is judged by somebody who has not seen how it came about (RPR-11)."""
    newest, review = repair.drafts[-1], repair.review
    reviewer = plan_of(state, node).reviewer
    if reviewer is None or (review is not None and review.verdict in APPROVED):
        outcome: Literal["passed", "taken_over"] = "taken_over" if newest.taken_over else "passed"
        return _end(node, repair, context, newest, outcome)
    if review is None:
        return _ask_reviewer(node, repair, context, reviewer)
    call = state.invocations[node.id].calls[review.call]
    if call.status not in ANSWERED_CALL:
        return Step(release=Release("wait"))
    if call.result is None:
        kind = call.error.kind if call.error is not None else "failed"
        return fail(node, "review_failed", f"the reviewer ended without a review ({kind})")
    return _reviewed(node, newest, review.call, call.result, context)


def _ask_reviewer(node: Node, repair: Repair, context: Context, reviewer: str) -> Step:
    newest, own_id = repair.drafts[-1], call_id(node.id, repair.turn + 1, 1)
    called = SubagentCalled(
        invocation=own_id,
        parent=node.id,
        agent=reviewer,
        provider_id=own_id,
        input=Payload.of({"draft": context.value_of(newest.content), "digest": newest.digest}),
    )
    return Step((about(node, called),))


def _reviewed(
    node: Node, newest: AssessedDraft, call: str, result: Payload, context: Context
) -> Step:
    given = context.value_of(result)
    verdict = given.get("verdict") if isinstance(given, dict) else None
    if verdict not in (*APPROVED, "rejected"):
        return fail(node, "invalid_review", "the review has no verdict that is known")
    stale = (given.get("digest") or newest.digest) != newest.digest
    received = ReviewReceived(
        draft=newest.digest, invocation=call, verdict=verdict, review=result, stale=stale
    )
    if stale or verdict != "rejected":
        return Step((about(node, received),))
    rejected = QualityFailed(iteration=newest.iteration, gate=REVIEW)
    return Step((about(node, received), about(node, rejected)))


def _end(
    node: Node,
    repair: Repair,
    context: Context,
    draft: AssessedDraft,
    outcome: Literal["passed", "accepted", "taken_over"],
) -> Step:
    """The draft leaves the loop, with what is known of it."""
    accepted = outcome == "accepted"
    status: Literal["DONE", "DONE_WITH_CONCERNS"] = "DONE_WITH_CONCERNS" if accepted else "DONE"
    output = {
        "draft": context.value_of(draft.content),
        "outcome": outcome,
        "completion_status": status,
        "rounds": repair.rounds,
        "score": draft.score,
        "quality": context.value_of(draft.quality),
    }
    facts: tuple[Fact, ...] = (
        RepairEnded(outcome=outcome),
        HandedOver(completion_status=status, draft=draft.digest),
        NodeCompleted(output=Payload.of(output)),
    )
    return Step(tuple(about(node, fact) for fact in facts))
