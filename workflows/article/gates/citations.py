"""
Gates on evidence: citations that lead somewhere, in the form of APA 7, and the list of references.

No suggestion here names a source: a claim without one is deleted or gets one that exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from mulligan.workflows.article.gates.document import Block, Document
from mulligan.workflows.article.gates.finding import Finding, Hit, faultless
from mulligan.workflows.article.gates.replacement import Edit, edit_of
from mulligan.workflows.article.gates.rules import Marker, Rules
from mulligan.workflows.article.gates.sources import (
    REFERENCES,
    YEAR,
    Citation,
    Source,
    citations_of,
    sources_of,
)

SURGICAL, STAGE = 1, 3
NO_SOURCE = "Name a source of the list, or delete the claim."
_NUMBER = re.compile(r"(?<![\[(])\[(\d{1,3})\]")
_BRACKETED_YEAR = re.compile(rf"\({YEAR}(?:, [^()]{{1,30}})?\)\.?")
_BARE_YEAR = re.compile(rf"(?<=[.,] )({YEAR})(?=[.,])")
_DOI = re.compile(r"(?i)(?:\bdoi: ?|https?://dx\.doi\.org/)(?=10\.)")


def _hit(
    document: Document,
    block: Block,
    start: int,
    rule: str,
    message: str,
    advice: str,
    edit: Edit | None = None,
) -> Hit:
    line, column = document.place(block.prose.source(start)[0])
    return Hit(
        gate=rule.split(".")[0],
        rule=rule,
        line=line,
        column=column,
        section=block.section.name,
        message=message,
        suggestion=advice,
        before=edit.before if edit is not None else None,
        after=edit.after if edit is not None else None,
        level_hint=SURGICAL if edit is not None else STAGE,
    )


# --- Citations -----------------------------------------------------------------------------------


def citations(document: Document, rules: Rules) -> Finding:
    """
    No mark is left that was to become a citation, and each citation is in the list of references,
    in APA form. A text without such a list is held to the first alone.
    """
    hits = [hit for block in document.blocks for hit in _markers(document, block, rules.markers)]
    sources = sources_of(document)
    if sources:
        hits += _unresolved(document, sources)
        for one in citations_of(document):
            hits += _checked(document, one, sources)
    return faultless(hits, rules.gates["citations"].half, "unsound citations")


def _markers(document: Document, block: Block, markers: Sequence[Marker]) -> Iterator[Hit]:
    for marker in markers:
        for found in re.finditer(marker.pattern, block.text):
            rule, told = f"citations.{marker.id}", f"“{found[0]}” is left over"
            edit = _deleted(document, block, found) if marker.delete else None
            advice = "Delete it." if marker.delete else NO_SOURCE
            yield _hit(document, block, found.start(), rule, told, advice, edit)


def _deleted(document: Document, block: Block, found: re.Match[str]) -> Edit | None:
    start = found.start()
    source = document.lines.text
    while start > 0 and source[block.prose.source(start - 1)[0]] in " \t":
        start -= 1
    return edit_of(document, block, start, found.end(), "")


def _unresolved(document: Document, sources: Sequence[Source]) -> Iterator[Hit]:
    """Numbers in brackets: entries must bear them."""
    numbered = {found[1] for one in sources if (found := re.match(r"\[(\d+)\]", one.block.text))}
    if all(one.block.ordered for one in sources):
        numbered |= {str(number) for number in range(1, len(sources) + 1)}
    for block in document.blocks:
        if block.section.role == REFERENCES:
            continue
        for found in _NUMBER.finditer(block.text):
            if found[1] not in numbered:
                told = f"“{found[0]}” is not in the list"
                rule = "citations.unresolved"
                yield _hit(document, block, found.start(), rule, told, NO_SOURCE)


def _checked(document: Document, one: Citation, sources: Sequence[Source]) -> Iterator[Hit]:
    of_author = [source for source in sources if source.surname == one.surname]
    told = f"“{one.authors}, {one.year}”"
    if not of_author:
        if _is_citation(one):
            told += " is not in the list"
            yield _hit(document, one.block, one.start, "citations.unresolved", told, NO_SOURCE)
        return
    if all(source.year not in (one.year, None) for source in of_author):
        yield _hit(
            document, one.block, one.start, "citations.unresolved",
            f"{told} has another year in the list", "Give the year of the list.",
        )  # fmt: skip
        return
    right = _apa(one)
    written = one.block.text[one.start : one.end]
    if right != written:
        edit = edit_of(document, one.block, one.start, one.end, right)
        advice = f"Write “{right}”."
        yield _hit(document, one.block, one.start, "citations.form", told, advice, edit)


def _is_citation(one: Citation) -> bool:
    """Whether it is one for sure: `(May, 2020)` after a comma is, `(version 2020)` is not."""
    if one.narrative:
        return " et al" in one.authors
    return one.comma and one.authors[:1].isupper()


def _apa(one: Citation) -> str:
    """The citation as APA writes it."""
    authors = re.sub(r" et al\.?(?=$|,)", " et al.", one.authors)
    if one.narrative:
        return re.sub(r" & ", " and ", authors)
    return f"{re.sub(r',? and ', ' & ', authors)}, {one.year}"


# --- References ----------------------------------------------------------------------------------


def references(document: Document, rules: Rules) -> Finding:
    """A text has some sources and not too many, each cited, in APA form and in order."""
    own = rules.gates["references"]
    sources = sources_of(document)
    hits = [hit for one in sources for hit in _entry(document, one)]
    hits += _order(document, sources)
    hits += _uncited(document, sources)
    off = max(0.0, own.low - len(sources), len(sources) - own.high)
    if off:
        hits.insert(0, _count_hit(document, len(sources), own.low, own.high))
    faults = len(hits) - bool(off) + off
    return faultless(hits, own.half, f"{len(sources)} references; faults", faults)


def _count_hit(document: Document, count: int, low: float, high: float) -> Hit:
    section = next(
        (one for one in document.sections if one.role == REFERENCES), document.sections[-1]
    )
    return Hit(
        gate="references",
        rule="references.count",
        line=section.first_line,
        column=1,
        section=section.name,
        message=f"{count} references",
        suggestion=f"Have {low:.0f} to {high:.0f} in the list, each of them read and cited.",
        level_hint=STAGE,
    )


def _entry(document: Document, one: Source) -> Iterator[Hit]:
    block, text = one.block, one.block.text
    year = _BRACKETED_YEAR.search(text)
    if year is None:
        yield _unbracketed(document, block)
    elif not year[0].endswith("."):
        edit = edit_of(document, block, year.start(), year.end(), f"{year[0]}.")
        told, advice = "no full stop after the year", "Put a full stop after the year."
        yield _hit(document, block, year.start(), "references.form", told, advice, edit)
    joined = re.search(r",? and (?=[^\W\d_][\w'’\-]*, [^\W\d_]\.)", text)
    if joined is not None and (year is None or joined.start() < year.start()):
        edit = edit_of(document, block, joined.start(), joined.end(), ", & ")
        told, advice = "authors joined by “and”", "Join the last two authors by an ampersand."
        yield _hit(document, block, joined.start(), "references.form", told, advice, edit)
    for found in _DOI.finditer(text):
        edit = edit_of(document, block, found.start(), found.end(), "https://doi.org/")
        told, advice = "a DOI that is no link", "Write the DOI as a link."
        yield _hit(document, block, found.start(), "references.form", told, advice, edit)


def _unbracketed(document: Document, block: Block) -> Hit:
    found = _BARE_YEAR.search(block.text)
    rule, told, advice = "references.form", "no year in brackets", "Put the year in brackets."
    if found is None:
        advice = "Put the year in brackets after the authors, or (n.d.) if there is none."
        return _hit(document, block, 0, rule, told, advice)
    after = found.end() + (block.text[found.end() : found.end() + 1] in (".", ","))
    edit = edit_of(document, block, found.start(), after, f"({found[1]}).")
    return _hit(document, block, found.start(), rule, told, advice, edit)


def _order(document: Document, sources: Sequence[Source]) -> Iterator[Hit]:
    if all(one.block.text.startswith("[") or one.block.ordered for one in sources):
        return
    for before, one in pairwise(sources):
        if one.surname < before.surname:
            told, advice = "not in the order of the alphabet", "Sort the list by its authors."
            yield _hit(document, one.block, 0, "references.order", told, advice)


def _uncited(document: Document, sources: Sequence[Source]) -> Iterator[Hit]:
    cited = {(one.surname, one.year) for one in citations_of(document)}
    numbers = {
        int(found[1])
        for block in document.blocks
        if block.section.role != REFERENCES
        for found in _NUMBER.finditer(block.text)
    }
    for number, one in enumerate(sources, start=1):
        if (one.surname, one.year) in cited or number in numbers:
            continue
        told, advice = "never cited", "Cite it where it bears out a claim, or delete it."
        yield _hit(document, one.block, 0, "references.uncited", told, advice)
