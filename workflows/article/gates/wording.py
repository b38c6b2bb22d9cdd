"""Gates on wording: banned phrases, and em dashes."""

from __future__ import annotations

import re

from mulligan.workflows.article.gates.document import OWN, Block, Document
from mulligan.workflows.article.gates.finding import Finding, Hit, faultless
from mulligan.workflows.article.gates.phrases import Finder, Match
from mulligan.workflows.article.gates.replacement import Edit, edit_of, in_words
from mulligan.workflows.article.gates.rules import Rules

SURGICAL = 1
_DASH = re.compile(r"—[—\s]*")
_BLANKS = " \t\u00a0\u2009\u200a"
_NEAR = 80
"""Characters around a dash that decide what takes its place."""
_LEAD_WORDS = 6
"""A dash after so few words at the start of a list item sets off what the item is about."""


def banned(document: Document, rules: Rules) -> Finding:
    """No phrase of the list of banned ones, in the author's own words."""
    finder = Finder(rules.banned)
    hits = [
        phrase_hit(document, block, match, "banned")
        for block in document.prose(*OWN)
        for match in finder.find(block)
    ]
    return faultless(hits, rules.gates["banned"].half, "banned phrases")


def phrase_hit(document: Document, block: Block, match: Match, gate: str) -> Hit:
    """The hit of a phrase, with its replacement where there is one that can be put in blindly."""
    line, column = document.place(block.prose.source(match.start)[0])
    edit = None
    if match.use is not None:
        edit = in_words(document, block, match.start, match.end, match.use)
    if edit is not None and edit.line != line:
        edit = None  # its article stands on the line before
    found = " ".join(block.text[match.start : match.end].split())
    return Hit(
        gate=gate,
        rule=f"{gate}.{match.phrase.id}",
        line=line,
        column=column,
        section=block.section.name,
        message=f"“{found}”",
        suggestion=_advice(match),
        before=edit.before if edit is not None else None,
        after=edit.after if edit is not None else None,
        level_hint=SURGICAL,
    )


def _advice(match: Match) -> str:
    if match.phrase.why:
        return match.phrase.why
    if match.use:
        return f"Say “{match.use}”, or name the thing itself."
    return "Leave it out." if match.use == "" else "Say it in plain words."


def em_dash(document: Document, rules: Rules) -> Finding:
    """No em dash outside of the references."""
    hits = [
        _dash_hit(document, block, found)
        for block in document.blocks
        if block.section.role != "references" and block.kind != "quote"
        for found in _DASH.finditer(block.text)
    ]
    return faultless(hits, rules.gates["em_dash"].half, "em dashes")


def _dash_hit(document: Document, block: Block, found: re.Match[str]) -> Hit:
    line, column = document.place(block.prose.source(found.start())[0])
    edit, advice = _without_dash(document, block, found)
    return Hit(
        gate="em_dash",
        rule="em_dash.found",
        line=line,
        column=column,
        section=block.section.name,
        message="em dash",
        suggestion=advice,
        before=edit.before if edit is not None else None,
        after=edit.after if edit is not None else None,
        level_hint=SURGICAL,
    )


def _without_dash(
    document: Document, block: Block, found: re.Match[str]
) -> tuple[Edit | None, str]:
    start = found.start()
    while start > 0 and block.text[start - 1] in _BLANKS:
        start -= 1
    left, right = (
        block.text[max(0, start - _NEAR) : start],
        block.text[found.end() : found.end() + _NEAR],
    )
    mark, advice = _mark(block, left, right)
    edit = edit_of(document, block, start, found.end(), mark)
    line = document.place(block.prose.source(found.start())[0]).line
    return edit if edit is not None and edit.line == line else None, advice


def _mark(block: Block, left: str, right: str) -> tuple[str, str]:
    """What stands in the place of a dash between two texts, and the advice that says so."""
    if not left.strip() and not right.strip():
        return "n/a", "Write n/a, or the value."
    if not left.strip():
        return "", "Leave it out."
    if not right.strip():
        return ".", "End the sentence."
    if left[-1].isdigit() and right[0].isdigit():
        return "–", "Write a range with an en dash."
    if left[-1] in ".,;:!?":
        return " ", "Leave it out."
    if block.kind in ("item", "heading") and len(left) < _NEAR and len(left.split()) <= _LEAD_WORDS:
        return ": ", "Write a colon."
    return ", ", "Write a comma, or make two sentences of it."
