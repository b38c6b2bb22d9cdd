"""
The repair log of a run (RPR-3): what each round of its repair loops did, and what came of it.

It is a fold of the run's events and nothing else, so that the one that is written while a run goes
on and the one that is rebuilt years later are the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.payload import Payload

ValueOf = Callable[[Payload], Any]
Trigger = Literal["gate_failed", "vetoed", "rejected"]
RoundVerdict = Literal["passed", "improved", "not_improved"]


class LogAction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that a round did; with `skipped`, what it did not do, and why."""

    type: str
    line: int | None = None
    section: str | None = None
    before: Any = None
    after: Any = None
    skipped: str | None = None


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """
    A round. `metric` is the gate that it was for (or `vetoes`, `review`), and the scores are that
    gate's; `cost_usd` is None where it is not known.
    """

    iteration: int
    level: int
    trigger: Trigger
    metric: str
    actions: tuple[LogAction, ...]
    score_before: float
    score_after: float
    duration_seconds: float
    estimate_usd: float
    cost_usd: float | None
    verdict: RoundVerdict


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """A level that had nothing to act on before that round."""

    before_iteration: int
    level: int
    because: str


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What the gates said overall, of the draft of a round (0: before any)."""

    iteration: int
    draft: str
    passed: bool
    overall_score: float
    vetoes: int
    taken_over: bool


class ReviewLine(msgspec.Struct, frozen=True, kw_only=True):
    """An independent review, and whether it counted."""

    draft: str
    verdict: str
    counted: bool


class RepairLog(msgspec.Struct, frozen=True, kw_only=True):
    """The repair loop of one node. `outcome` is None while it goes on."""

    run: str
    node: str
    iterations: tuple[Iteration, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    assessments: tuple[Assessment, ...] = ()
    reviews: tuple[ReviewLine, ...] = ()
    final_level: int | None = None
    total_iterations: int = 0
    outcome: str | None = None
    halt_reason: str | None = None
    awaits_decision: str | None = None
    best_draft: str | None = None
    decided_by: str | None = None


class RepairLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The repair loops of a run, in the order in which they began."""

    run: str
    loops: tuple[RepairLog, ...] = ()


class _Open(msgspec.Struct, kw_only=True):
    started: facts.RepairRoundStarted
    started_ms: int
    actions: list[LogAction] = []
    passed: bool = False


def fold(run: str, events: Iterable[Envelope], value_of: ValueOf) -> RepairLogs:
    """The repair logs of `run` after `events`; `value_of` reads a payload, wherever it lies."""
    writing: dict[str, _Writer] = {}
    for event in events:
        if isinstance(event.data, _QUALITY) and event.node is not None:
            writer = writing.setdefault(event.node, _Writer(run, event.node, value_of))
            writer.take(event)
    return RepairLogs(run=run, loops=tuple(one.log for one in writing.values()))


class _Writer:
    """Writes one loop's log, event by event."""

    def __init__(self, run: str, node: str, value_of: ValueOf) -> None:
        self.log = RepairLog(run=run, node=node)
        self._value_of = value_of
        self._open: _Open | None = None

    def take(self, event: Envelope) -> None:
        fact = event.data
        match fact:
            case facts.QualityAssessed():
                self._assess(fact)
            case facts.RepairRoundStarted():
                self._open = _Open(started=fact, started_ms=event.time_ms)
            case facts.RepairActionApplied() | facts.RepairActionSkipped():
                assert self._open is not None
                self._open.actions.append(self._action(fact))
            case facts.RepairRoundCompleted():
                self._complete(fact, event.time_ms)
            case facts.RepairLevelPassedOver():
                over = PassedOver(
                    before_iteration=fact.iteration, level=fact.level, because=fact.because
                )
                self._set(passed_over=(*self.log.passed_over, over))
            case facts.ReviewReceived():
                line = ReviewLine(draft=fact.draft, verdict=fact.verdict, counted=not fact.stale)
                self._set(reviews=(*self.log.reviews, line))
            case facts.RepairEnded():
                self._set(outcome=fact.outcome, halt_reason=fact.halt_reason)
            case facts.DecisionRequested():
                self._set(awaits_decision=fact.request_id, best_draft=fact.draft)
            case facts.DecisionMade():
                self._set(awaits_decision=None, decided_by=fact.by or None)

    def _set(self, **changed: Any) -> None:
        self.log = replace(self.log, **changed)

    def _assess(self, fact: facts.QualityAssessed) -> None:
        assessment = Assessment(
            iteration=fact.iteration,
            draft=fact.draft,
            passed=fact.passed,
            overall_score=fact.score,
            vetoes=fact.vetoes,
            taken_over=fact.taken_over,
        )
        self._set(assessments=(*self.log.assessments, assessment))
        if self._open is not None:
            self._open.passed = fact.passed

    def _action(self, fact: facts.RepairActionApplied | facts.RepairActionSkipped) -> LogAction:
        return LogAction(
            type=fact.kind,
            line=fact.line,
            section=fact.section,
            before=self._value_of(fact.before) if fact.before is not None else None,
            after=self._value_of(fact.after) if fact.after is not None else None,
            skipped=fact.because if isinstance(fact, facts.RepairActionSkipped) else None,
        )

    def _complete(self, fact: facts.RepairRoundCompleted, now_ms: int) -> None:
        opened = self._open
        assert opened is not None
        metric = opened.started.trigger
        triggers: dict[str, Trigger] = {"vetoes": "vetoed", "review": "rejected"}
        better = fact.score_after > fact.score_before
        iteration = Iteration(
            iteration=fact.iteration,
            level=fact.level,
            trigger=triggers.get(metric, "gate_failed"),
            metric=metric,
            actions=tuple(opened.actions),
            score_before=fact.score_before,
            score_after=fact.score_after,
            duration_seconds=(now_ms - opened.started_ms) / 1000,
            estimate_usd=opened.started.estimate_usd,
            cost_usd=fact.cost_usd,
            verdict="passed" if opened.passed else "improved" if better else "not_improved",
        )
        self._open = None
        self._set(
            iterations=(*self.log.iterations, iteration),
            final_level=fact.level,
            total_iterations=len(self.log.iterations) + 1,
        )


_QUALITY = (
    facts.QualityAssessed,
    facts.QualityFailed,
    facts.RepairRoundStarted,
    facts.RepairActionApplied,
    facts.RepairActionSkipped,
    facts.RepairRoundCompleted,
    facts.RepairLevelPassedOver,
    facts.ReviewReceived,
    facts.RepairEnded,
    facts.DecisionRequested,
    facts.DecisionMade,
)
