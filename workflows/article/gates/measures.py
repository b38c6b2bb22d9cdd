"""Gates that measure the whole text: the density of its keyword, and its reading level."""

from __future__ import annotations

from mulligan.workflows.article.gates.document import OWN, Block, Document, Section
from mulligan.workflows.article.gates.finding import Finding, Hit, Unasked, score_of
from mulligan.workflows.article.gates.phrases import Finder, phrase_of
from mulligan.workflows.article.gates.rules import GateRules, Rules
from mulligan.workflows.article.gates.words import Sentence

SECTION_LEVEL = 2
FEW_WORDS = 100
"""Of fewer words neither density nor reading level says anything."""
MOST_SENTENCES = 5
"""So many of the longest sentences are named."""


def _banded(metric: float, own: GateRules, verdict: str, hits: list[Hit]) -> Finding:
    distance = max(0.0, own.low - metric, metric - own.high)
    above = metric > own.high
    return Finding(
        passed=distance == 0,
        score=score_of(distance, own.half),
        metric=metric,
        direction="lower" if above else "higher",
        threshold=own.high if above else own.low,
        verdict=verdict,
        hits=tuple(hits) if distance else (),
    )


def keyword(document: Document, rules: Rules) -> Finding | Unasked:
    """The keyword's words are some percent of the text's, no fewer and no more."""
    wanted = rules.brief.keyword
    if wanted is None:
        return Unasked("the brief names no keyword")
    if document.word_count < FEW_WORDS:
        return Unasked(f"the text has fewer than {FEW_WORDS} words")
    phrase = phrase_of(wanted)
    finder = Finder([phrase])
    found = [(block, match) for block in document.prose(*OWN) for match in finder.find(block)]
    own = rules.gates["keyword"]
    density = 100 * len(found) * len(phrase.words) / document.word_count
    if density > own.high:
        block, match = found[-1]
        place = document.place(block.prose.source(match.start)[0])
        advice = "Use other words for it here and there."
        hits = [_measured("keyword.high", block.section, *place, f"{density:.1f} %", advice)]
    else:
        section = document.sections[min(1, len(document.sections) - 1)]
        advice = "Name the subject by its keyword, in the first paragraph too."
        line = section.first_line
        hits = [_measured("keyword.low", section, line, 1, f"{density:.1f} %", advice)]
    return _banded(density, own, f"keyword density {density:.1f} %", hits)


def reading(document: Document, rules: Rules) -> Finding | Unasked:
    """
    The automated readability index (Smith & Senter, 1967) is within its band: 4.71 times letters
    a word, plus half the words a sentence, less 21.43; about the school year that reads it.
    """
    blocks = document.prose("paragraph")
    words = sum(len(block.words) for block in blocks)
    sentences = [(block, one) for block in blocks for one in block.sentences]
    if words < FEW_WORDS:
        return Unasked(f"the text has fewer than {FEW_WORDS} words in paragraphs")
    letters = sum(sum(map(str.isalnum, word.text)) for block in blocks for word in block.words)
    index = 4.71 * letters / words + 0.5 * words / len(sentences) - 21.43
    own = rules.gates["reading"]
    hits = _long(document, sentences) if index > own.high else [_plain(document)]
    return _banded(index, own, f"reading level {index:.1f}", hits)


def _long(document: Document, sentences: list[tuple[Block, Sentence]]) -> list[Hit]:
    longest = sorted(sentences, key=lambda pair: -pair[1].words)[:MOST_SENTENCES]
    hits = []
    for block, one in longest:
        place = document.place(block.prose.source(one.start)[0])
        advice = "Split it, or say it in shorter words."
        hits.append(_measured("reading.high", block.section, *place, f"{one.words} words", advice))
    return hits


def _plain(document: Document) -> Hit:
    section = document.sections[min(1, len(document.sections) - 1)]
    advice = "Join short sentences that belong together."
    return _measured("reading.low", section, section.first_line, 1, "very plain", advice)


def _measured(
    rule: str, section: Section, line: int, column: int, message: str, advice: str
) -> Hit:
    return Hit(
        gate=rule.split(".")[0],
        rule=rule,
        line=line,
        column=column,
        section=section.name,
        message=message,
        suggestion=advice,
        level_hint=SECTION_LEVEL,
    )
