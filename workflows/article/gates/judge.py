"""
All gates over a text: each hit and score, and the quality report that a repair goes by (RPR-1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mulligan.errors import InvalidInput
from mulligan.quality.report import CombinedVerdict, Fix, Gate, Quality, judged
from mulligan.workflows.article.gates.citations import citations, references
from mulligan.workflows.article.gates.document import Document
from mulligan.workflows.article.gates.finding import Finding, Hit, Unasked
from mulligan.workflows.article.gates.measures import keyword, reading
from mulligan.workflows.article.gates.rules import Rules, rules_from
from mulligan.workflows.article.gates.slop import slop
from mulligan.workflows.article.gates.structure import capsules, form, headings, word_count
from mulligan.workflows.article.gates.wording import banned, em_dash

GateFunction = Callable[[Document, Rules], Finding | Unasked]

GATES: dict[str, GateFunction] = {
    "slop": slop,
    "banned": banned,
    "em_dash": em_dash,
    "word_count": word_count,
    "headings": headings,
    "capsules": capsules,
    "citations": citations,
    "references": references,
    "keyword": keyword,
    "reading": reading,
    "format": form,
}
"""The gates that ship, by name. Any other function of this kind can be handed in beside them."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """
    What the gates say of a text: the fields of a quality report, and beside them all `hits` in the
    order of the text (those of gates that pass too), the gates that were `unasked` and why, and the
    count of words. `repairs` are the hits of gates that fail.
    """

    overall_passed: bool
    overall_score: float
    combined_verdict: CombinedVerdict
    words: int
    gates: dict[str, Gate]
    hits: tuple[Hit, ...]
    unasked: dict[str, str]
    repairs: tuple[Fix, ...]
    iteration: int = 0
    vetoes_triggered: tuple[str, ...] = ()

    @property
    def quality(self) -> Quality:
        """The report as the repair loop takes it."""
        return Quality(
            overall_passed=self.overall_passed,
            overall_score=self.overall_score,
            gates=self.gates,
            repairs=self.repairs,
            combined_verdict=self.combined_verdict,
        )


def report_on(
    text: str, rules: Rules | None = None, gates: Mapping[str, GateFunction] = GATES
) -> Report:
    """
    What the gates say of a Markdown text.

    Args:
        text: Markdown; any text is.
        rules: which gates to ask and what they go by; without it those that ship.
        gates: the functions of the gates that `rules` names.

    Raises InvalidInput where no gate has anything to go by.
    """
    rules = rules or rules_from()
    document = Document(text, rules.structure)
    asked = {name: gates[name](document, rules) for name in rules.names}
    found = {name: one for name, one in asked.items() if isinstance(one, Finding)}
    unasked = {name: one.because for name, one in asked.items() if isinstance(one, Unasked)}
    if not found:
        told = "; ".join(f"{name}: {because}" for name, because in unasked.items())
        raise InvalidInput(f"no gate has anything to go by ({told})")
    quality = judged(
        {name: _gate(one) for name, one in found.items()},
        [_fix(hit) for one in found.values() if not one.passed for hit in one.hits],
        weights={name: rules.gates[name].weight for name in found if name in rules.gates},
    )
    hits = [hit for one in found.values() for hit in one.hits]
    return Report(
        overall_passed=quality.overall_passed,
        overall_score=quality.overall_score,
        combined_verdict=quality.combined_verdict,
        words=document.word_count,
        gates=quality.gates,
        hits=tuple(sorted(hits, key=lambda hit: (hit.line, hit.column, hit.rule))),
        unasked=unasked,
        repairs=quality.repairs,
    )


def _gate(found: Finding) -> Gate:
    return Gate(
        passed=found.passed,
        score=found.score,
        metric=found.metric,
        direction=found.direction,
        threshold=found.threshold,
        verdict=found.verdict,
    )


def _fix(hit: Hit) -> Fix:
    return Fix(
        gate=hit.gate,
        kind=hit.rule,
        instruction=f"{hit.message}: {hit.suggestion}",
        section=hit.section,
        line=hit.line,
        before=hit.before,
        after=hit.after,
        level_hint=hit.level_hint,
    )
