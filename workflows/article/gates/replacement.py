"""
How a part of a block's prose is replaced in the source: `before`, and what may stand for it.

`before` is found once from its line on, so that an edit without a column is sure of its place.
"""

from __future__ import annotations

import html
import re
from typing import NamedTuple

from mulligan.workflows.article.gates.document import Block, Document

_BLANKS = " \t\u00a0"
_VOWELS = "aeiou"
_LEFT = re.compile(r"[ \t]*[^ \t]*$")
_RIGHT = re.compile(r"[^ \t]*[ \t]*")


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
    first = any(one.start <= start and not text[one.start : start].strip(' "“(')
                for one in block.sentences)
    while end < len(text) and text[end] in _BLANKS + ",":
        end += 1
    if end >= len(text) or not text[end].isalnum():
        return None
    if not first:
        return edit_of(document, block, start, end, "")
    return edit_of(document, block, start, end + 1, text[end].upper())


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


def edit_at(document: Document, start: int, end: int, after: str) -> Edit:
    """The edit that puts `after` between two offsets of the source."""
    lines = document.lines
    line, column = lines.place(start)
    last = lines.place(max(start, end - 1)).line
    first, until = lines.start(line), lines.start(last + 1) - 1
    whole = lines.text[first:until]
    first_line = len(lines.lines[line - 1])
    left, right = start - first, end - first
    while not _alone(whole, whole[left:right], first_line) and (left or right < len(whole)):
        found = _LEFT.search(whole, 0, left)
        wider = found.start() if found is not None else 0
        found = _RIGHT.match(whole, right)
        right_wider = found.end() if found is not None else len(whole)
        if (wider, right_wider) == (left, right):
            wider, right_wider = 0, len(whole)
        after = whole[wider:left] + after + whole[right:right_wider]
        left, right = wider, right_wider
    return Edit(line, column, whole[left:right], after)


def _alone(whole: str, before: str, first_line: int) -> bool:
    """Whether a text is found once among those that start on the first line."""
    at = whole.find(before)
    again = whole.find(before, at + 1)
    return bool(before) and not 0 <= again <= first_line
