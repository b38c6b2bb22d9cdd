"""
How a part of a block's prose is replaced in the source: `before`, and what may stand for it.

`before` is found once from its line on, so that an edit without a column is sure of its place.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from typing import NamedTuple

from mulligan.workflows.article.gates.document import Block, Document

_BLANKS = " \t\u00a0"
_VOWELS = "aeiou"
LONGEST = 20_000
"""On longer lines nothing is replaced: looking for each fault would take too long."""
MOST_AROUND = 12
"""So many words on each side may be needed to tell one place from another."""


class Edit(NamedTuple):
    """A replacement in the source, on or from `line` on."""

    line: int
    column: int
    before: str
    after: str


def in_words(document: Document, block: Block, start: int, end: int, use: str) -> Edit | None:
    """
    Other words for a part of a block, in the case of the old ones, with the article before them
    made to fit; with `use` empty the part is left out. None if that is not to be done blindly.
    """
    if not use:
        return _left_out(document, block, start, end)
    use = in_case_of(block.text[start:end], use)
    article = re.search(r"\b(a|an|A|An)[ \n]$", block.text[max(0, start - 4) : start])
    if article is not None:
        right = "an" if use[0].lower() in _VOWELS else "a"
        if right != article[1].lower():
            start -= len(article[0])
            use = f"{in_case_of(article[1], right)} {use}"
    return edit_of(document, block, start, end, use)


def in_case_of(old: str, new: str) -> str:
    """`new` with the capitals of `old`."""
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def _left_out(document: Document, block: Block, start: int, end: int) -> Edit | None:
    text = block.text
    first = _starts_sentence(block, start)
    while end < len(text) and text[end] in _BLANKS + ",":
        end += 1
    if end >= len(text) or not text[end].isalnum():
        return None
    if not first:
        return edit_of(document, block, start, end, "")
    return edit_of(document, block, start, end + 1, text[end].upper())


def _starts_sentence(block: Block, start: int) -> bool:
    """Whether there is nothing but an opening quote or bracket before it in its sentence."""
    at = bisect_right(block.sentences, start, key=lambda one: one.start) - 1
    return at >= 0 and not block.text[block.sentences[at].start : start].strip(' "“(')


def edit_of(document: Document, block: Block, start: int, end: int, after: str) -> Edit | None:
    """
    The edit that puts `after` in the place of a part of a block's text that is not empty. None if
    there is markup within that part, which an edit could tear.
    """
    first, until = block.prose.span(start, end)
    written = html.unescape(document.lines.text[first:until])
    if written.split() != block.text[start:end].split():
        return None
    return edit_at(document, first, until, after)


def edit_at(document: Document, start: int, end: int, after: str) -> Edit | None:
    """
    The edit that puts `after` between two offsets of the source, with as many words around as make
    its place sure. None where that takes too many, or the line is too long to look.
    """
    lines = document.lines
    line, column = lines.place(start)
    last = lines.place(max(start, end - 1)).line
    first, until = lines.start(line), lines.start(last + 1) - 1
    if until - first > LONGEST:
        return None
    whole = lines.text[first:until]
    first_line = len(lines.lines[line - 1])
    left, right = start - first, end - first
    for _ in range(MOST_AROUND):
        before = whole[left:right]
        if _alone(whole, before, first_line):
            return Edit(
                line,
                column,
                before,
                whole[left : start - first] + after + whole[end - first : right],
            )
        left, right = _wider(whole, left, right)
    return None


def _wider(whole: str, left: int, right: int) -> tuple[int, int]:
    """With a word more on both sides."""
    while left > 0 and whole[left - 1] in _BLANKS:
        left -= 1
    while left > 0 and whole[left - 1] not in _BLANKS:
        left -= 1
    while right < len(whole) and whole[right] not in _BLANKS:
        right += 1
    while right < len(whole) and whole[right] in _BLANKS:
        right += 1
    return left, right


def _alone(whole: str, before: str, first_line: int) -> bool:
    """Whether a text is found once among those that start on the first line."""
    again = whole.find(before, whole.find(before) + 1)
    return bool(before) and not 0 <= again <= first_line
