"""
The reference list of a text, and what its citations and entries look like in APA 7.

The forms are those of the Publication Manual of the American Psychological Association, 7th
edition, chapters 8 and 9, as far as they can be told without knowing the work that is cited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mulligan.workflows.article.gates.document import Block, Document

REFERENCES = "references"
YEAR = r"(?:\d{4}[a-z]?|n\.d\.)"
_NAME = r"[^\W\d_][\w'’\-]*"
_ENTRY_YEAR = re.compile(rf"\(?({YEAR})(?:, [^()]{{1,30}})?\)?")
_CITED = re.compile(r"\(([^()]{3,300})\)")
_ONE = re.compile(
    rf"^(?:see |see also |e\.g\., |cf\. )?(?P<authors>.{{1,200}}?)(?P<comma>,?) (?P<year>{YEAR})"
    r"(?P<rest>, .{1,60})?$"
)
_NARRATIVE = re.compile(
    rf"\b(?P<authors>{_NAME}(?: (?:&|and) {_NAME}| et al\.?)?)"
    rf" \((?P<year>{YEAR})(?:, [^()]{{1,60}})?\)"
)


class Source(NamedTuple):
    """An entry of the reference list; `surname` is in small letters, or what is there instead."""

    block: Block
    surname: str
    year: str | None


class Citation(NamedTuple):
    """A citation in a block's text, from and to where, taken apart."""

    block: Block
    start: int
    end: int
    authors: str
    surname: str
    year: str
    comma: bool
    narrative: bool


def sources_of(document: Document) -> list[Source]:
    """The entries of the reference list: its paragraphs or list items."""
    return [
        _source(block)
        for block in document.in_role(REFERENCES)
        if block.kind in ("paragraph", "item") and block.words
    ]


def _source(block: Block) -> Source:
    text = re.sub(r"^\[\d+\]\s*", "", block.text)
    year = _ENTRY_YEAR.search(text)
    until = min(
        (at for at in (text.find(","), text.find(". "), text.find(" (")) if at > 0),
        default=len(text),
    )
    return Source(block, text[:until].strip().lower(), year[1] if year else None)


def citations_of(document: Document) -> Iterator[Citation]:
    """The author-year citations of a text."""
    for block in document.blocks:
        if block.section.role != REFERENCES:
            yield from _in_brackets(block)
            yield from _in_sentences(block)


def _in_brackets(block: Block) -> Iterator[Citation]:
    for found in _CITED.finditer(block.text):
        at = found.start(1)
        for part in found[1].split(";"):
            lead = len(part) - len(part.lstrip())
            one = _ONE.match(part.strip().replace("\n", " "))
            if one is not None and one["authors"][:1].isalpha():
                start = at + lead + one.start("authors")
                end = at + lead + one.end("year")
                yield _citation(block, start, end, one, comma=bool(one["comma"]), narrative=False)
            at += len(part) + 1


def _in_sentences(block: Block) -> Iterator[Citation]:
    for found in _NARRATIVE.finditer(block.text):
        yield _citation(
            block, found.start(), found.end("authors"), found, comma=True, narrative=True
        )


def _citation(
    block: Block, start: int, end: int, found: re.Match[str], *, comma: bool, narrative: bool
) -> Citation:
    authors = found["authors"]
    first = re.split(r" (?:&|and|et al\.?)(?= |$)|,", authors)[0]
    return Citation(
        block, start, end, authors, first.strip().lower(), found["year"], comma, narrative
    )
