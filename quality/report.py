"""
A quality report: what gates say of a draft, and what could be repaired (RPR-1).

Scores are from 0 to 100 and higher is better, whatever a gate measures; `overall_score` is their
weighted mean, capped where a veto was triggered. A report is plain JSON outside of here, so that
one made elsewhere counts like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from mulligan.errors import InvalidInput

VETO_CAP = 40.0
"""No draft scores above this overall while a veto stands."""

HUNDRED = msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 100})
"""Bounds of a score, for its published schema; `quality_of` says in words what is out of them."""

CombinedVerdict = Literal["SHIP", "FIX_REQUIRED", "BLOCKED"]


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """
    What one gate says. `metric` is what it measured and `threshold` where it passes, by
    `direction`; `score` is the same on the common scale.
    """

    passed: bool
    score: Annotated[float, HUNDRED]
    metric: float
    direction: Literal["higher", "lower"]
    threshold: float
    verdict: str = ""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """
    Something to repair. `line` counts from 1. `before` is text of that line, `after` what may stand
    in its place; without `after` somebody has to find words. `level_hint` names the level of
    repair that it is for, where the gate knows. A draft that is no text has a JSON pointer as
    `path` in place of the line.
    """

    gate: str
    kind: str
    instruction: str
    section: str | None = None
    line: int | None = None
    before: str | None = None
    after: str | None = None
    level_hint: int | None = None
    path: str | msgspec.UnsetType = msgspec.UNSET


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report; `gates` are in their declared order."""

    overall_passed: bool
    overall_score: Annotated[float, HUNDRED]
    gates: dict[str, Gate]
    iteration: int = 0
    vetoes_triggered: tuple[str, ...] = ()
    repairs: tuple[Fix, ...] = ()
    combined_verdict: CombinedVerdict = "FIX_REQUIRED"
    generated_at: str | None = None

    @property
    def trigger(self) -> str | None:
        """The first failing gate in declared order: what a repair is for (RPR-5)."""
        return next((name for name, gate in self.gates.items() if not gate.passed), None)

    @property
    def problem_sections(self) -> tuple[str, ...]:
        """The sections that something is to be repaired in, each once, in order."""
        return tuple(dict.fromkeys(one.section for one in self.repairs if one.section))

    def score_of(self, gate: str) -> float:
        """A gate's score; of a name that is no gate's, the overall one."""
        return self.gates[gate].score if gate in self.gates else self.overall_score


def judged(
    gates: Mapping[str, Gate],
    repairs: Iterable[Fix] = (),
    *,
    weights: Mapping[str, float] | None = None,
    vetoes: Iterable[str] = (),
) -> Quality:
    """
    The report that these gates add up to.

    Args:
        weights: by gate; 1 for those that it leaves out.
        vetoes: what forbids to ship the draft, whatever the scores are.

    Raises InvalidInput where there is no gate, or no weight is above 0.
    """
    if not gates:
        raise InvalidInput("a quality report needs at least one gate")
    shares = {name: (weights or {}).get(name, 1.0) for name in gates}
    if min(shares.values()) < 0 or sum(shares.values()) <= 0:
        raise InvalidInput("weights are 0 or more, and one of them is above 0")
    mean = sum(gates[name].score * share for name, share in shares.items()) / sum(shares.values())
    triggered = tuple(vetoes)
    passed = not triggered and all(gate.passed for gate in gates.values())
    return Quality(
        overall_passed=passed,
        overall_score=round(min(mean, VETO_CAP) if triggered else mean, 2),
        gates=dict(gates),
        vetoes_triggered=triggered,
        repairs=tuple(repairs),
        combined_verdict="SHIP" if passed else "BLOCKED" if triggered else "FIX_REQUIRED",
    )


def quality_of(value: Any, source: str) -> Quality:
    """
    The report that a plug-in or a file gave as plain JSON.

    Raises InvalidInput that names `source` and what is wrong there.
    """
    if isinstance(value, Quality):
        value = msgspec.to_builtins(value)
    try:
        quality = msgspec.convert(value, Quality, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{source}: not a quality report: {error}") from None
    if not quality.gates:
        raise InvalidInput(f"{source}: a quality report needs at least one gate")
    for name, gate in quality.gates.items():
        if not 0 <= gate.score <= 100:
            raise InvalidInput(f"{source}: gates.{name}.score is {gate.score}, not 0 to 100")
    if not 0 <= quality.overall_score <= 100:
        raise InvalidInput(f"{source}: overall_score is {quality.overall_score}, not 0 to 100")
    if quality.overall_passed and (quality.trigger or quality.vetoes_triggered):
        raise InvalidInput(f"{source}: overall_passed is true, but a gate or a veto says no")
    return quality
