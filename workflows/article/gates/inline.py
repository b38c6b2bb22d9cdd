"""
The prose of an inline text: what a reader reads, with the place of each character in the source.

The library says what is markup but not where; its rules are wrapped to note the part of the source
that each has taken. Code, images, bare addresses and automatic links are no prose: a placeholder
stands for each.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline import autolink as autolink_rule
from markdown_it.rules_inline import backtick as backticks_rule
from markdown_it.rules_inline import emphasis as emphasis_rule
from markdown_it.rules_inline import entity as entity_rule
from markdown_it.rules_inline import escape as escape_rule
from markdown_it.rules_inline import html_inline as html_inline_rule
from markdown_it.rules_inline import image as image_rule
from markdown_it.rules_inline import link as link_rule
from markdown_it.rules_inline import newline as newline_rule
from markdown_it.rules_inline import strikethrough as strikethrough_rule
from mdit_py_plugins.footnote.index import footnote_ref as footnote_ref_rule

PLACEHOLDER = "\ufffc"
"""Stands for what is no prose; Unicode's own sign for that."""

_RULES: dict[str, Callable[[StateInline, bool], bool]] = {
    "newline": newline_rule,
    "escape": escape_rule,
    "backticks": backticks_rule,
    "strikethrough": strikethrough_rule.tokenize,
    "emphasis": emphasis_rule.tokenize,
    "link": link_rule,
    "image": image_rule,
    "autolink": autolink_rule,
    "html_inline": html_inline_rule,
    "entity": entity_rule,
    "footnote_ref": footnote_ref_rule,
}
_OPAQUE = {"backticks", "image", "autolink", "footnote_ref"}
_ADDRESS = re.compile(r"(?:https?://|ftp://|mailto:|www\.)[^\s<>\ufffc]+")
_NOTED = "noted"


class Taken(NamedTuple):
    """What a rule has taken of the source; of a link, `label_end` is where its label ends."""

    start: int
    end: int
    rule: str
    label_end: int = -1


class Prose:
    """
    Prose of one block. `text` is what is read; a character of it may be spelled by several of the
    source (an entity), so that a part of it has a `span` there.
    """

    def __init__(self, pieces: Sequence[tuple[str, int, int]]) -> None:
        self._starts: list[int] = []
        self._spans: list[tuple[int, int]] = []
        texts: list[str] = []
        at = 0
        for text, start, end in pieces:
            self._starts.append(at)
            self._spans.append((start, end))
            texts.append(text)
            at += len(text)
        self.text = _ADDRESS.sub(lambda found: PLACEHOLDER * len(found[0]), "".join(texts))

    def source(self, at: int) -> tuple[int, int]:
        """The source's offsets from and to of the character at `at`."""
        piece = bisect_right(self._starts, at) - 1
        start, end = self._spans[piece]
        until = self._starts[piece + 1] if piece + 1 < len(self._starts) else len(self.text)
        if until - self._starts[piece] != end - start:
            return start, end
        offset = start + at - self._starts[piece]
        return offset, offset + 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The source's offsets from and to of a part of the text that is not empty."""
        return self.source(start)[0], self.source(end - 1)[1]


def noting(md: MarkdownIt) -> MarkdownIt:
    """The parser, its inline rules noting what they take."""
    for name, rule in _RULES.items():
        md.inline.ruler.at(name, _noting(name, rule))
    return md


def _noting(name: str, rule: Callable[[StateInline, bool], bool]) -> Any:
    def run(state: StateInline, silent: bool) -> bool:
        start = state.pos
        if not rule(state, silent):
            return False
        noted, tokens = state.env.get(_NOTED, (None, None))
        if not silent and noted is not None and tokens is state.tokens:
            noted.append(_taken(state, name, start))
        return True

    return run


def _taken(state: StateInline, name: str, start: int) -> Taken:
    label_end = state.md.helpers.parseLinkLabel(state, start) if name == "link" else -1
    return Taken(start, state.pos, name, label_end)


def pieces(md: MarkdownIt, content: str, env: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """
    The prose of an inline text in pieces: what is read, and from where to where in `content` it is
    written. A piece as long as its source is written as it is read.
    """
    noted: list[Taken] = []
    tokens: list[Any] = []
    md.inline.parse(content, md, {**env, _NOTED: (noted, tokens)}, tokens)
    at = 0
    for one in sorted(_parts(noted), key=lambda one: (one.start, -one.end)):
        if one.start < at:
            continue
        if one.start > at:
            yield content[at : one.start], at, one.start
        read = _read(content, one)
        if read:
            yield read, one.start, one.end
        at = one.end
    if at < len(content):
        yield content[at:], at, len(content)


def _parts(noted: Sequence[Taken]) -> Iterator[Taken]:
    """What was taken, a link as its two ends: the label between them was taken piece by piece."""
    for one in noted:
        if one.rule == "link":
            yield Taken(one.start, one.start + 1, "markup")
            yield Taken(one.label_end, one.end, "markup")
        else:
            yield one


def _read(content: str, one: Taken) -> str:
    source = content[one.start : one.end]
    if one.rule in _OPAQUE:
        return PLACEHOLDER
    if one.rule == "newline" or (one.rule == "escape" and source[1:2].isspace()):
        return " "
    if one.rule == "escape":
        return source[1:]
    return html.unescape(source) if one.rule == "entity" else ""
