"""Gates on structure: word counts, the hierarchy of headings, capsules, and the form asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mulligan.workflows.article.gates.document import (
    CONTENT,
    TEXT,
    Block,
    Document,
    Section,
)
from mulligan.workflows.article.gates.finding import Finding, Hit, Unasked, faultless, score_of
from mulligan.workflows.article.gates.replacement import edit_at
from mulligan.workflows.article.gates.rules import Format, Rules

SECTION_LEVEL, STAGE_LEVEL = 2, 3
_ATX = re.compile(r"[ \t]*(#{1,6})(?=[ \t]|$)")


def _at_section(section: Section, gate: str, rule: str, message: str, suggestion: str) -> Hit:
    return Hit(
        gate=gate,
        rule=f"{gate}.{rule}",
        line=section.first_line,
        column=1,
        section=section.name,
        message=message,
        suggestion=suggestion,
        level_hint=SECTION_LEVEL,
    )


# --- Word count ----------------------------------------------------------------------------------


def word_count(document: Document, rules: Rules) -> Finding | Unasked:
    """The text has the words that were asked for, and each section those of its budget."""
    target = rules.brief.target_words
    if target is None:
        return Unasked("the brief names no target_words")
    own = rules.gates["word_count"]
    ratio = document.word_count / target
    distance = max(0.0, own.low - ratio, ratio - own.high)
    hits = [hit for hit, _ in _budgets(document, rules)]
    faults = distance + sum(off for _, off in _budgets(document, rules))
    if distance:
        more = (
            "Add what a reader still needs." if ratio < 1 else "Cut what a reader can do without."
        )
        told = f"{document.word_count} words of {target}"
        hits.insert(0, _at_section(_whole(document), "word_count", "text", told, more))
    return Finding(
        passed=not hits,
        score=score_of(faults, own.half),
        metric=ratio,
        direction="lower" if ratio > own.high else "higher",
        threshold=own.high if ratio > own.high else own.low,
        verdict=f"{document.word_count} of {target} words",
        hits=tuple(hits),
    )


def _whole(document: Document) -> Section:
    return next((one for one in document.sections if one.level), document.sections[0])


def words_in(document: Document, section: Section) -> int:
    """The words of a section without its headings."""
    return sum(len(one.words) for one in document.in_section(section) if one.kind in TEXT)


def _budgets(document: Document, rules: Rules) -> Iterator[tuple[Hit, float]]:
    """The sections out of their budget, and by which share of it."""
    own = rules.gates["word_count"]
    by_name = {section.name: section for section in document.sections}
    for name, budget in rules.brief.section_words.items():
        section = by_name.get(name)
        words = words_in(document, section) if section is not None else 0
        off = max(0.0, own.section_low - words / budget, words / budget - own.section_high)
        if not off:
            continue
        told = f"{words} words of {budget}" if section is not None else f"no section “{name}”"
        advice = "Make it longer." if words < budget else "Make it shorter."
        yield _at_section(section or _whole(document), "word_count", "section", told, advice), off


# --- Headings ------------------------------------------------------------------------------------


def headings(document: Document, rules: Rules) -> Finding:
    """No heading skips a level, none is empty; an article has one title."""
    hits: list[Hit] = []
    above: list[
        tuple[int, int]
    ] = []  # levels of the headings around: as written, as they should be
    titles = 0
    for block in (one for one in document.blocks if one.kind == "heading"):
        titles += block.level == 1
        while above and above[-1][0] >= block.level:
            above.pop()
        right = min(block.level, above[-1][1] + 1) if above else block.level
        if right < block.level:
            told = f"level {block.level} under level {above[-1][1]}"
            hits.append(_relevelled(document, block, right, "skipped", told))
        elif block.level == 1 and titles > 1 and rules.profile == "article":
            hits.append(_relevelled(document, block, 2, "title", "a second title"))
            right = 2
        above.append((block.level, right))
    return faultless(hits, rules.gates["headings"].half, "misplaced headings")


def _relevelled(document: Document, block: Block, level: int, rule: str, told: str) -> Hit:
    line = document.lines.lines[block.line - 1]
    found = _ATX.match(line)
    edit = None
    if found is not None:
        start = document.lines.start(block.line)
        end = start + len(line)
        after = line[: found.start(1)] + "#" * level + line[found.end(1) :]
        edit = edit_at(document, start, end, after)
    return Hit(
        gate="headings",
        rule=f"headings.{rule}",
        line=block.line,
        column=(found.start(1) if found is not None else 0) + 1,
        section=block.section.name,
        message=told,
        suggestion=f"Make it a heading of level {level}.",
        before=edit.before if edit is not None else None,
        after=edit.after if edit is not None else None,
        level_hint=1 if edit is not None else STAGE_LEVEL,
    )


# --- Capsules ------------------------------------------------------------------------------------


def capsules(document: Document, rules: Rules) -> Finding | Unasked:
    """
    Most content sections have a capsule: a paragraph of some 50 words that can be quoted alone,
    with a number or a year, and no pronoun at its start.
    """
    own = rules.gates["capsules"]
    sections = [one for one in document.sections if one.role == CONTENT and one.level]
    if not sections:
        return Unasked("the text has no content section")
    without = [one for one in sections if not _has_capsule(document, rules, one)]
    coverage = 100 * (1 - len(without) / len(sections))
    advice = (
        f"Give it one paragraph of 40 to 60 words ({own.low:.0f} to {own.high:.0f} will do) that "
        "can be quoted alone: the subject first, no pronoun, and a number or a year."
    )
    hits = [_at_section(one, "capsules", "missing", "no capsule", advice) for one in without]
    return Finding(
        passed=coverage >= own.threshold,
        score=coverage,
        metric=coverage,
        direction="higher",
        threshold=own.threshold,
        verdict=f"{len(sections) - len(without)} of {len(sections)} sections have a capsule",
        hits=tuple(hits),
    )


def _has_capsule(document: Document, rules: Rules, section: Section) -> bool:
    own = rules.gates["capsules"]
    return any(
        block.kind == "paragraph"
        and own.low <= len(block.words) <= own.high
        and any(one.isdigit() for one in block.text)
        and block.words[0].key.split("'")[0] not in rules.pronouns
        for block in document.in_section(section)
    )


# --- The form that was asked for -----------------------------------------------------------------


def form(document: Document, rules: Rules) -> Finding | Unasked:
    """The text has what its form needs: steps, items, a table, questions, sections."""
    asked = rules.brief.format
    if asked is None:
        return Unasked("the brief names no format")
    section = _whole(document)
    hits = [
        _at_section(section, "format", rule, told, advice)
        for rule, told, advice in _missing(document, rules.formats[asked])
    ]
    return faultless(hits, rules.gates["format"].half, f"what a text of the form {asked} lacks")


def _missing(document: Document, wanted: Format) -> Iterator[tuple[str, str, str]]:
    blocks = document.prose("paragraph", "item", "cell", "heading")
    items = [one for one in blocks if one.kind == "item"]
    numbered = sum(one.ordered for one in items)
    tables = any(one.kind == "cell" for one in blocks)
    questions = sum(
        one.kind == "heading" and one.text.rstrip().endswith("?") for one in document.blocks
    )
    sections = sum(one.role == CONTENT for one in document.sections)
    listed = sum(len(one.words) for one in items) / max(1, document.word_count)
    if sections < wanted.sections:
        yield "sections", f"{sections} sections", f"Make it {wanted.sections} sections or more."
    if numbered < wanted.numbered_items:
        yield "steps", f"{numbered} numbered items", "Number the steps, one item each."
    if len(items) < wanted.items:
        yield "items", f"{len(items)} items", f"List {wanted.items} items or more."
    if wanted.tables and not tables:
        yield "table", "no table", "Compare in a table, one row each."
    if questions < wanted.questions:
        yield "questions", f"{questions} questions", "Make each question a heading."
    if listed > wanted.list_share:
        yield "lists", f"{listed:.0%} of the words are in lists", "Write paragraphs, not lists."
