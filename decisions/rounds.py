"""
A round of repair: the level it is of, the agents that work in it, and the draft it comes to.
"""

from __future__ import annotations

from typing import Any, Literal, assert_never

import msgspec

from mulligan.decisions import scope
from mulligan.decisions.decision import Context, DraftOutcome, Release, ReworkDraft, Step
from mulligan.decisions.drafts import REVIEW, about, assessed, fail, not_passed, quality_in
from mulligan.decisions.levels import SCRATCH, affordable, estimate_usd, pick_level
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Fact,
    RepairActionApplied,
    RepairActionSkipped,
    RepairLevelPassedOver,
    RepairRoundCompleted,
    RepairRoundStarted,
    SubagentCalled,
)
from mulligan.events.ids import call_id
from mulligan.events.payload import Payload
from mulligan.projections.state import ANSWERED_CALL, Node, Repair, RunState
from mulligan.quality.report import Fix, Quality, quality_of
from mulligan.quality.rework import Action, Job, Jobs, Nothing, Redone, Result, answer_of
from mulligan.schemas.plan import RepairPlan

MOST_STAGES, MOST_JOBS = 10, 200
"""What a round takes: more than any level needs, so that a workload which never ends is found."""

HaltReason = Literal["rounds", "budget", "level_5_failed", "no_action"]


def choose(state: RunState, node: Node, repair: Repair, context: Context) -> Step | HaltReason:
    """Ask what the next round would do, if there may be one; else why there may not."""
    plan = plan_of(state, node)
    if repair.rounds >= plan.max_rounds:
        return "rounds"
    level = _level(plan, repair, context)
    if level is None:
        last = repair.tried[-1]
        failed = last.level == SCRATCH and last.improvement is not None
        return "level_5_failed" if failed else "no_action"
    if not affordable(plan, repair.spent_usd, estimate_usd(plan, level)):
        return "budget"
    return _rework(state, node, repair, context, level)


def go_on(state: RunState, node: Node, repair: Repair, context: Context) -> Step:
    """A round is under way: wait for its agents, or hand on what they made."""
    assert repair.open is not None
    calls = state.invocations[node.id].calls
    made = [calls[call] for stage in repair.open.stages for call in stage]
    if any(call.status not in ANSWERED_CALL for call in made):
        return Step(release=Release("wait"))
    return _rework(state, node, repair, context, repair.open.level)


def answered(
    state: RunState, node: Node, repair: Repair, context: Context, outcome: DraftOutcome
) -> Step:
    """What `rework` said. Raises InvalidInput where that, or the gates' report, can't be read."""
    plan = plan_of(state, node)
    answer = answer_of(outcome.answer, plan.rework.call.path)
    started = _started(plan, node, repair, context)
    match answer:
        case Jobs():
            return _call_agents(plan, node, repair, started, answer)
        case Redone():
            quality = quality_of(outcome.quality, plan.gates.call.path)
            return _redone(node, repair, context, started, answer, quality)
        case Nothing() if repair.open is None:
            passed_over = RepairLevelPassedOver(
                iteration=repair.rounds + 1,
                level=_level(plan, repair, context) or SCRATCH,
                because=answer.because,
            )
            return Step((about(node, passed_over),))
        case Nothing():
            kept = Redone(
                context.value_of(repair.drafts[-1].content),
                (Action(type="none", skipped=answer.because),),
            )
            return _redone(
                node, repair, context, started, kept, quality_in(repair.drafts[-1], context)
            )
        case _:
            assert_never(answer)


def plan_of(state: RunState, node: Node) -> RepairPlan:
    """The plan of a repair node."""
    plan = state.repair_of(node.id)
    assert plan is not None
    return plan


# --- What a round is for -------------------------------------------------------------------------


def _level(plan: RepairPlan, repair: Repair, context: Context) -> int | None:
    quality, vetoes = _wanted(repair, context)
    return pick_level(quality, repair.tried, start_rules=plan.start_rules, vetoes=vetoes)


def _wanted(repair: Repair, context: Context) -> tuple[Quality, int]:
    """
    The report to repair by, and the vetoes of the review where it was that which said no: then
    what it would change is what there is to repair (RPR-11).
    """
    quality = quality_in(repair.drafts[-1], context)
    review = repair.review
    if repair.trigger != REVIEW or review is None or review.review is None:
        return quality, 0
    given = context.value_of(review.review)
    changes = [_wish(one) for one in given.get("would_change") or []]
    vetoes = given.get("veto_reasons") or []
    return msgspec.structs.replace(quality, repairs=tuple(changes)), len(vetoes)


def _wish(change: Any) -> Fix:
    if isinstance(change, str):
        return Fix(gate=REVIEW, kind=REVIEW, instruction=change)
    given = {"gate": REVIEW, "kind": REVIEW, "instruction": "", **change}
    return msgspec.convert(given, Fix)


def _started(
    plan: RepairPlan, node: Node, repair: Repair, context: Context
) -> tuple[NewEvent, ...]:
    """The start of the round, unless it has started: at the level that it was asked for."""
    if repair.open is not None:
        return ()
    level = _level(plan, repair, context) or SCRATCH
    fact = RepairRoundStarted(
        iteration=repair.rounds + 1,
        level=level,
        trigger=repair.trigger or "",
        estimate_usd=estimate_usd(plan, level),
    )
    return (about(node, fact),)


def _rework(state: RunState, node: Node, repair: Repair, context: Context, level: int) -> Step:
    plan = plan_of(state, node)
    quality, _ = _wanted(repair, context)
    report = msgspec.to_builtins(quality)
    named = scope.values(state, node.id, plan.rework.arguments, context.value_of)
    own = {
        "draft": context.value_of(repair.drafts[-1].content),
        "level": level,
        "quality": report,
        "repairs": list(report["repairs"]),
        "stages": _results(state, node, repair, context),
    }
    given = named | {name: own[name] for name in own if name in plan.rework.arguments}
    values = scope.values(state, node.id, plan.gates.arguments, context.value_of)
    return Step(
        effect=ReworkDraft(
            node=node.id, rework=plan.rework, given=given, gates=plan.gates, values=values
        )
    )


def _results(
    state: RunState, node: Node, repair: Repair, context: Context
) -> list[list[dict[str, Any]]]:
    """What became of the round's jobs so far, stage by stage."""
    stages = repair.open.stages if repair.open is not None else ()
    return [[_result(state, node, call, context) for call in stage] for stage in stages]


def _result(state: RunState, node: Node, call_of: str, context: Context) -> dict[str, Any]:
    call = state.invocations[node.id].calls[call_of]
    result = Result(
        agent=call.name,
        section=call.section,
        output=context.value_of(call.result) if call.result is not None else None,
        error=call.error.kind if call.error is not None else None,
        calls=tuple(
            {
                "name": one.name,
                "arguments": context.value_of(one.arguments),
                "result": context.value_of(one.result),
            }
            for one in state.invocations[call_of].calls.values()
            if one.result is not None
        ),
    )
    plain: dict[str, Any] = msgspec.to_builtins(result)
    return plain


# --- What a round does ---------------------------------------------------------------------------


def _call_agents(
    plan: RepairPlan, node: Node, repair: Repair, started: tuple[NewEvent, ...], answer: Jobs
) -> Step:
    if len(repair.open.stages if repair.open is not None else ()) >= MOST_STAGES:
        return fail(node, "invalid_workload", f"rework asks for more than {MOST_STAGES} stages")
    if len(answer.jobs) > MOST_JOBS:
        return fail(node, "invalid_workload", f"rework asks for {len(answer.jobs)} jobs at once")
    unknown = [job.agent for job in answer.jobs if job.agent not in plan.agents]
    if unknown:
        return fail(node, "unknown_agent", f"rework asks for {unknown[0]!r}, not among `agents`")
    turn = repair.turn + 1
    calls = [
        about(node, _call(node, turn, number, job))
        for number, job in enumerate(answer.jobs, start=1)
    ]
    return Step((*started, *calls))


def _call(node: Node, turn: int, number: int, job: Job) -> SubagentCalled:
    own_id = call_id(node.id, turn, number)
    return SubagentCalled(
        invocation=own_id,
        parent=node.id,
        agent=job.agent,
        provider_id=own_id,
        input=Payload.of(job.input),
        section=job.section,
    )


def _redone(
    node: Node,
    repair: Repair,
    context: Context,
    started: tuple[NewEvent, ...],
    answer: Redone,
    quality: Quality,
) -> Step:
    """A round is over; what was done, what the gates say, and what it cost stand together."""
    iteration = repair.rounds + 1
    before = quality_in(repair.drafts[-1], context)
    trigger, opened = repair.trigger or "", repair.open
    level = opened.level if opened is not None else _level_of(started)
    completed = RepairRoundCompleted(
        iteration=iteration,
        level=level,
        score_before=before.score_of(trigger),
        score_after=quality.score_of(trigger),
        cost_usd=(None if opened.cost_unknown else opened.cost_usd) if opened is not None else 0.0,
    )
    events = [
        *started,
        *(about(node, _did(iteration, action)) for action in answer.actions),
        assessed(node, quality, Payload.of(answer.draft), iteration=iteration),
        about(node, completed),
    ]
    if not quality.overall_passed:
        events.append(not_passed(node, quality, iteration=iteration))
    return Step(tuple(events))


def _level_of(started: tuple[NewEvent, ...]) -> int:
    fact = started[0].data
    assert isinstance(fact, RepairRoundStarted)
    return fact.level


def _did(iteration: int, action: Action) -> Fact:
    before = Payload.of(action.before) if action.before is not None else None
    after = Payload.of(action.after) if action.after is not None else None
    if action.skipped is not None:
        return RepairActionSkipped(
            iteration=iteration,
            kind=action.type,
            because=action.skipped,
            line=action.line,
            section=action.section,
            before=before,
            after=after,
        )
    return RepairActionApplied(
        iteration=iteration,
        kind=action.type,
        line=action.line,
        section=action.section,
        before=before,
        after=after,
    )
