"""
What facts about quality and repair change in a run's state.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.ids import node_of_invocation
from mulligan.projections.changes import Changes, goes_on, registering, settle, unpause
from mulligan.projections.state import (
    AssessedDraft,
    Invocation,
    LevelTried,
    OpenRound,
    Recovery,
    Repair,
    Review,
    RunState,
)

CHANGES: Changes = {}
on = registering(CHANGES)


def begin(state: RunState, node: str, now_ms: int) -> None:
    """A repair node has started; its loop calls agents as an agent's invocation would."""
    if node in state.repairs:
        return
    state.repairs[node] = Repair()
    loop = Recovery(invocation_id=node, limit=0)
    state.invocations[node] = Invocation(id=node, recovery=loop, since_ms=now_ms)


def call(state: RunState, fact: facts.SubagentCalled) -> None:
    """An agent was called: if by a repair loop, for a stage of its round or as its reviewer."""
    repair = state.repairs.get(fact.parent)
    if repair is None:
        return
    if repair.open is None:
        review = Review(draft=repair.drafts[-1].digest, call=fact.invocation)
        _put(state, fact.parent, replace(repair, review=review, turn=repair.turn + 1))
        return
    stages, turn = repair.open.stages, int(fact.invocation.rsplit(".", 2)[1])
    if turn > repair.turn:
        stages = (*stages, (fact.invocation,))
    else:
        stages = (*stages[:-1], (*stages[-1], fact.invocation))
    opened = replace(repair.open, stages=stages)
    _put(state, fact.parent, replace(repair, open=opened, turn=turn))


def spend(state: RunState, invocation: str, usage: facts.Usage | None) -> None:
    """What a request for a round has cost; None, or a usage without a cost: unknown."""
    node = node_of_invocation(invocation)
    repair = state.repairs.get(node)
    if repair is None or repair.open is None:
        return
    cost = usage.cost_usd if usage is not None else None
    opened = replace(
        repair.open,
        cost_usd=repair.open.cost_usd + (cost or 0.0),
        cost_unknown=repair.open.cost_unknown or cost is None,
    )
    _put(state, node, replace(repair, open=opened))


def _put(state: RunState, node: str | None, repair: Repair) -> None:
    state.repairs[node or ""] = repair


def _of(state: RunState, event: Envelope) -> Repair:
    return state.repairs[event.node or ""]


@on(facts.QualityAssessed)
def _assessed(state: RunState, event: Envelope, fact: facts.QualityAssessed) -> None:
    assert fact.content is not None
    draft = AssessedDraft(
        iteration=fact.iteration,
        digest=fact.draft,
        content=fact.content,
        quality=fact.quality,
        passed=fact.passed,
        score=fact.score,
        vetoes=fact.vetoes,
        taken_over=fact.taken_over,
    )
    repair = _of(state, event)
    decided = None if fact.taken_over else repair.decided
    _put(
        state,
        event.node,
        replace(repair, drafts=(*repair.drafts, draft), decided=decided, trigger=None, review=None),
    )


@on(facts.QualityFailed)
def _quality_failed(state: RunState, event: Envelope, fact: facts.QualityFailed) -> None:
    _put(state, event.node, replace(_of(state, event), trigger=fact.gate, orchestrated=True))


@on(facts.ReviewReceived)
def _reviewed(state: RunState, event: Envelope, fact: facts.ReviewReceived) -> None:
    repair = _of(state, event)
    if fact.stale:
        _put(state, event.node, replace(repair, review=None))
        return
    review = Review(
        draft=fact.draft, call=fact.invocation, verdict=fact.verdict, review=fact.review
    )
    _put(state, event.node, replace(repair, review=review))


@on(facts.RepairLevelPassedOver)
def _passed_over(state: RunState, event: Envelope, fact: facts.RepairLevelPassedOver) -> None:
    repair = _of(state, event)
    tried = LevelTried(level=fact.level)
    _put(state, event.node, replace(repair, tried=(*repair.tried, tried)))


@on(facts.RepairRoundStarted)
def _round_started(state: RunState, event: Envelope, fact: facts.RepairRoundStarted) -> None:
    opened = OpenRound(
        iteration=fact.iteration,
        level=fact.level,
        trigger=fact.trigger,
        estimate_usd=fact.estimate_usd,
    )
    _put(state, event.node, replace(_of(state, event), open=opened))


@on(facts.RepairRoundCompleted)
def _round_completed(state: RunState, event: Envelope, fact: facts.RepairRoundCompleted) -> None:
    repair = _of(state, event)
    estimate = repair.open.estimate_usd if repair.open is not None else 0.0
    tried = LevelTried(level=fact.level, improvement=fact.score_after - fact.score_before)
    known = repair.open.cost_usd if repair.open is not None else 0.0
    spent = fact.cost_usd if fact.cost_usd is not None else max(estimate, known)
    _put(
        state,
        event.node,
        replace(
            repair,
            open=None,
            tried=(*repair.tried, tried),
            rounds=repair.rounds + 1,
            spent_usd=repair.spent_usd + spent,
        ),
    )


@on(facts.RepairEnded)
def _ended(state: RunState, event: Envelope, fact: facts.RepairEnded) -> None:
    repair = _of(state, event)
    _put(state, event.node, replace(repair, outcome=fact.outcome, halt_reason=fact.halt_reason))


@on(facts.DecisionRequested)
def _decision_requested(state: RunState, event: Envelope, fact: facts.DecisionRequested) -> None:
    repair = _of(state, event)
    _put(
        state,
        event.node,
        replace(repair, awaits=fact.request_id, decisions=repair.decisions + 1, best=fact.draft),
    )


@on(facts.DecisionMade)
def _decided(state: RunState, event: Envelope, fact: facts.DecisionMade) -> None:
    repair = _of(state, event)
    if repair.awaits != fact.request_id:
        return
    _put(state, event.node, replace(repair, awaits=None, decided=fact))
    goes_on(state)
    unpause(state, state.invocations[event.node or ""], event.time_ms)


@on(facts.HandedOver)
def _handed_over(state: RunState, event: Envelope, fact: facts.HandedOver) -> None:
    settle(state, event.node or "", "completed")
