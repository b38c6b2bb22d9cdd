"""
The artifacts of a run's repair loops as files (RPR-15), and what other tools look for in them.

    <node>/draft.r00.md, draft.r01.md, …   the draft of every round; `.json` where it is no text
    <node>/draft.md                        the one that stands: handed over, else the best so far
    <node>/quality.json, review.json       of the newest draft, and the review that counts
    <node>/repair-log.json                 the rounds
    <node>/handoff.json, state.json        where it stands, and what to do next
    <node>/<other>.json                    the output of each node that it needs

A fold of the log: any host can write them again, the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Any, Literal

import msgspec

from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.payload import Payload
from mulligan.projections import repair_log
from mulligan.projections.run import evolve
from mulligan.projections.state import Repair, RunState
from mulligan.quality.report import HUNDRED

ValueOf = Callable[[Payload], Any]
CompletionStatus = Literal["DONE", "DONE_WITH_CONCERNS", "BLOCKED", "NEEDS_INPUT"]
Phase = Literal["gate", "repair", "review", "decide", "done", "aborted"]

REVIEWER = "independent-reviewer"


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever goes on has to know of a draft (RPR-4); `draft` is its digest."""

    completion_status: CompletionStatus
    draft: str | None
    overall_score: Annotated[float, HUNDRED] | None
    caveats: tuple[str, ...] = ()
    recommended_next_skill: str | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """`state.json`: the phase of the loop, and how many rounds there were."""

    phase: Phase
    repair_iteration: int


def files(run: str, events: Iterable[Envelope], value_of: ValueOf) -> dict[str, bytes]:
    """The files of a run's workspace by their relative paths; none where nothing was judged."""
    history = list(events)
    state = RunState(run=run)
    assessed: dict[str, list[str]] = {}
    for event in history:
        evolve(state, event)
        if isinstance(event.data, facts.QualityAssessed) and event.node is not None:
            assessed.setdefault(event.node, []).append(_time(event.time_ms))
    written: dict[str, bytes] = {}
    for log in repair_log.fold(run, history, value_of).loops:
        folder = _Folder(state, log, assessed.get(log.node, []), value_of)
        written |= {f"{log.node}/{name}": data for name, data in folder.files().items()}
    return written


class _Folder:
    """The files of one loop."""

    def __init__(
        self, state: RunState, log: repair_log.RepairLog, times: list[str], value_of: ValueOf
    ) -> None:
        self._state = state
        self._log = log
        self._times = times
        self._value_of = value_of
        self._repair: Repair = state.repairs[log.node]

    def files(self) -> dict[str, bytes]:
        drafts = self._repair.drafts
        made: dict[str, bytes] = {}
        handed_in = count(1)
        for draft in drafts:
            content = self._value_of(draft.content)
            by_whom = f".taken-over-{next(handed_in)}" if draft.taken_over else ""
            made[f"draft.r{draft.iteration:02}{by_whom}{_suffix(content)}"] = _bytes(content)
        if drafts:
            standing = self._value_of(self._stands().content)
            made[f"draft{_suffix(standing)}"] = _bytes(standing)
            report = self._value_of(drafts[-1].quality) | {"generated_at": self._times[-1]}
            made["quality.json"] = _json(report)
        review = self._repair.review
        if review is not None and review.review is not None:
            made["review.json"] = _json(self._value_of(review.review) | {"draft": review.draft})
        made["repair-log.json"] = _json(self._log)
        made["handoff.json"] = _json(self._handoff())
        made["state.json"] = _json(Standing(phase=self._phase(), repair_iteration=self._rounds))
        return made | self._materials()

    @property
    def _rounds(self) -> int:
        return self._repair.rounds

    def _stands(self) -> Any:
        """The draft that was handed over or is asked about; else the newest."""
        drafts = self._repair.drafts
        best = self._repair.best
        if best and self._repair.outcome in ("exhausted", "halted", "accepted", "aborted"):
            return next(one for one in drafts if one.digest == best)
        return drafts[-1]

    def _phase(self) -> Phase:
        repair = self._repair
        if repair.awaits is not None:
            return "decide"
        if repair.outcome in ("passed", "accepted", "taken_over"):
            return "done"
        if repair.outcome == "aborted":
            return "aborted"
        if repair.drafts and repair.drafts[-1].passed and repair.trigger is None:
            return "review"
        return "repair" if repair.orchestrated else "gate"

    def _handoff(self) -> Handoff:
        repair = self._repair
        if not repair.drafts:
            return Handoff(completion_status="BLOCKED", draft=None, overall_score=None)
        stands = self._stands()
        return Handoff(
            completion_status=self._status(),
            draft=stands.digest,
            overall_score=stands.score,
            caveats=self._caveats(stands),
            recommended_next_skill=REVIEWER if stands.passed else None,
        )

    def _status(self) -> CompletionStatus:
        match self._repair.outcome:
            case "passed" | "taken_over":
                return "DONE"
            case "accepted":
                return "DONE_WITH_CONCERNS"
            case None:
                return "NEEDS_INPUT" if self._repair.awaits else "BLOCKED"
            case _:
                return "BLOCKED"

    def _caveats(self, draft: Any) -> tuple[str, ...]:
        """What is still wrong with a draft that did not pass."""
        quality = self._value_of(draft.quality)
        failing = [name for name, gate in quality["gates"].items() if not gate["passed"]]
        told = [f"gate {name} fails" for name in sorted(failing)]
        told += [f"veto: {veto}" for veto in quality["vetoes_triggered"]]
        halted = self._repair.halt_reason
        return (*((f"could not converge ({halted})",) if halted else ()), *told)

    def _materials(self) -> dict[str, bytes]:
        """What the loop was given: the outputs of the nodes that it needs, directly or not."""
        plan = self._state.plan
        assert plan is not None
        needs = {node.id: node.needs for node in plan.nodes}
        waiting = list(self._state.plan_of(self._log.node).needs)
        made: dict[str, bytes] = {}
        while waiting:
            name = waiting.pop()
            output = self._state.nodes[name].output
            if f"{name}.json" not in made and output is not None:
                made[f"{name}.json"] = _json(self._value_of(output))
            waiting += needs[name]
        return made


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _suffix(content: Any) -> str:
    return ".md" if isinstance(content, str) else ".json"


def _bytes(content: Any) -> bytes:
    return content.encode() if isinstance(content, str) else _json(content)


def _json(value: Any) -> bytes:
    plain = msgspec.to_builtins(value)
    return (json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
