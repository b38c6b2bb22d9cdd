"""
The slop score: how much a text reads as machine-made, 0 (not at all) to 100.

Its parts are turns of phrase, the spread of sentence lengths, the variety of words, and runs of
very short sentences; their shares and bounds are data (gates.yaml). All are counted in words and
sentences, so that wrapping a text anew changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev

from mulligan.workflows.article.gates.document import OWN, Block, Document
from mulligan.workflows.article.gates.finding import Finding, Hit
from mulligan.workflows.article.gates.phrases import Finder
from mulligan.workflows.article.gates.rules import Part, Rules
from mulligan.workflows.article.gates.wording import phrase_hit
from mulligan.workflows.article.gates.words import Sentence

FEW_WORDS = 300
"""A shorter text counts as one of so many words: a single phrase must not decide on it."""
FEW_SENTENCES = 12
"""Below so many sentences their lengths say nothing."""
WINDOW = 100
"""Words over which their variety is counted (moving-average type-token ratio)."""
STACCATO_WORDS = 5
"""Sentences up to so long are very short."""
VOICE_LEVEL = 3
_ENDS, _CLOSING = (".", "!", "?", "…"), "\"'”’)]*_ "


def slop(document: Document, rules: Rules) -> Finding:
    """The slop score is below its threshold."""
    own = rules.gates["slop"]
    hits, density = _patterns(document, rules)
    paragraphs = document.prose("paragraph")
    measured = {
        "burstiness": _burstiness(paragraphs),
        "vocabulary": _vocabulary(paragraphs),
        "staccato": _staccato(paragraphs),
    }
    patterns = rules.slop_parts["patterns"]
    total = patterns.share * density / (density + patterns.half)
    for name, value in measured.items():
        part = rules.slop_parts[name]
        points = 0.0 if value is None else part.share * _reached(part, value)
        total += points
        if points >= part.share / 4 and value is not None:
            hits.append(_style_hit(document, name, value))
    return Finding(
        passed=total < own.threshold,
        score=100 - total,
        metric=total,
        direction="lower",
        threshold=own.threshold,
        verdict=f"slop score {total:.1f}",
        hits=tuple(hits),
    )


def _reached(part: Part, value: float) -> float:
    """How far a value is from where a part starts (0) to where it is whole (1)."""
    return min(1.0, max(0.0, (value - part.starts) / (part.until - part.starts)))


def _patterns(document: Document, rules: Rules) -> tuple[list[Hit], float]:
    """The hits of the list, and their weight in a thousand words."""
    finder = Finder(rules.slop)
    hits, weight = [], 0.0
    for block in document.prose(*OWN):
        for match in finder.find(block):
            hits.append(phrase_hit(document, block, match, "slop"))
            weight += match.phrase.weight
    return hits, 1000 * weight / max(FEW_WORDS, document.word_count)


def _whole_sentences(block: Block) -> list[Sentence]:
    """Those that end like sentences: labels, dates and captions have no rhythm."""
    return [
        one
        for one in block.sentences
        if block.text[one.start : one.end].rstrip(_CLOSING)[-1:] in _ENDS
    ]


def _burstiness(paragraphs: Sequence[Block]) -> float | None:
    """The standard deviation of sentence lengths over their mean."""
    lengths = [one.words for block in paragraphs for one in _whole_sentences(block)]
    return pstdev(lengths) / fmean(lengths) if len(lengths) >= FEW_SENTENCES else None


def _vocabulary(paragraphs: Sequence[Block]) -> float | None:
    """The mean share of different words in every hundred words that follow each other."""
    words = [word.key for block in paragraphs for word in block.words]
    if len(words) < WINDOW:
        return None
    counts = Counter(words[:WINDOW])
    different = [len(counts)]
    for old, new in zip(words, words[WINDOW:], strict=False):
        counts[new] += 1
        counts[old] -= 1
        if not counts[old]:
            del counts[old]
        different.append(len(counts))
    return fmean(different) / WINDOW


def _staccato(paragraphs: Sequence[Block]) -> float | None:
    """The share of sentences that are very short and follow another such one."""
    short = [
        [one.words <= STACCATO_WORDS for one in _whole_sentences(block)] for block in paragraphs
    ]
    count = sum(map(len, short))
    if count < FEW_SENTENCES:
        return None
    return sum(a and b for block in short for a, b in pairwise(block)) / count


_SAY = {
    "burstiness": "Join some sentences and shorten others, so that their lengths differ.",
    "vocabulary": "Say each thing once, and name things by their own words.",
    "staccato": "Join very short sentences that belong together.",
}


def _style_hit(document: Document, name: str, value: float) -> Hit:
    section = next((one for one in document.sections if one.level), document.sections[0])
    return Hit(
        gate="slop",
        rule=f"slop.{name}",
        line=section.first_line,
        column=1,
        section=section.name,
        message=f"{name} {value:.2f} over the whole text",
        suggestion=_SAY[name],
        level_hint=VOICE_LEVEL,
    )
