"""
The blocks of a Markdown text that hold prose, each character with its place in the source.

CommonMark with tables, strikethrough, footnotes and front matter, parsed by markdown-it. Code,
HTML, front matter and link definitions hold no prose.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from mulligan.workflows.article.gates.inline import Prose, noting, pieces
from mulligan.workflows.article.gates.lines import Lines

Kind = Literal["paragraph", "heading", "item", "cell", "quote", "footnote"]

DEPTH = 20
"""Markdown nested deeper is not looked into; markdown-it's own limit for CommonMark."""

_CONTAINERS: dict[str, Kind] = {
    "blockquote": "quote",
    "footnote": "footnote",
    "footnote_reference": "footnote",
    "table": "cell",
    "list_item": "item",
    "heading": "heading",
}
_STRONGEST: tuple[Kind, ...] = ("quote", "footnote", "cell", "item", "heading")

Anchors = list[tuple[int, int]]
"""From which offset of a content on the source goes on at which offset."""


class Found(NamedTuple):
    """A block: its kind, its prose, its first line, the level of a heading (else 0), and whether
    it stands in a numbered list."""

    kind: Kind
    prose: Prose
    line: int
    level: int
    ordered: bool


@cache
def _parser() -> MarkdownIt:
    md = MarkdownIt("commonmark", {"maxNesting": DEPTH}).enable(["table", "strikethrough"])
    md.core.ruler.disable(["inline", "text_join"])  # done block by block, with the places noted
    front_matter_plugin(md)
    footnote_plugin(md, inline=False, move_to_end=False)
    return noting(md)


def blocks_of(source: Lines) -> Iterator[Found]:
    """The blocks in the order of the text."""
    md, env = _parser(), dict[str, Any]()
    tokens = md.parse(source.text, env)
    cells = _Cells(source)
    open_now: list[str] = []
    level = 0
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.nesting > 0:
            open_now.append(name)
            level = int(token.tag[1]) if name == "heading" else level
            cells.see(token)
        elif token.nesting < 0:
            open_now.pop()
        elif token.type == "inline" and token.content:
            yield _found(
                source, token, open_now, level, list(pieces(md, token.content, env)), cells
            )


def _found(
    source: Lines,
    token: Token,
    open_now: Sequence[str],
    level: int,
    read: Sequence[tuple[str, int, int]],
    cells: _Cells,
) -> Found:
    kind = _kind(open_now)
    line = cells.line if kind == "cell" or token.map is None else token.map[0] + 1
    anchors = cells.anchors(token.content) if "table" in open_now else _anchors(source, token, line)
    prose = Prose(
        [(text, _at(anchors, start), _at(anchors, end - 1) + 1) for text, start, end in read]
    )
    lists = [one for one in open_now if one.endswith("_list")]
    ordered = bool(lists) and lists[-1] == "ordered_list"
    return Found(kind, prose, line, level if kind == "heading" else 0, ordered)


def _kind(open_now: Sequence[str]) -> Kind:
    kinds = {_CONTAINERS[name] for name in open_now if name in _CONTAINERS}
    return next((kind for kind in _STRONGEST if kind in kinds), "paragraph")


def _at(anchors: Anchors, offset: int) -> int:
    """The source offset of an offset in a content."""
    known = max(0, bisect_right(anchors, (offset, 1 << 62)) - 1)
    content, source = anchors[known]
    return source + max(0, offset - content)


def _anchors(source: Lines, token: Token, first_line: int) -> Anchors:
    """Each line of a content ends its line in the source, but for closing marks and blanks."""
    anchors: Anchors = []
    at = 0
    content = token.content.split("\n")
    while (
        first_line < len(source.lines)
        and content[0].strip(" \t") not in source.lines[first_line - 1]
    ):
        first_line += 1  # a line of such blanks as Unicode alone has: the content starts after it
    for number, line in enumerate(content, start=first_line):
        core = line.strip(" \t")
        column = max(0, source.lines[number - 1].rfind(core))
        anchors.append((at + line.find(core), source.start(number) + column))
        at += len(line) + 1
    return anchors


class _Cells:
    """Finds the cells of a table row after row: they come in the order of the source."""

    def __init__(self, source: Lines) -> None:
        self._source = source
        self.line = 1
        self._column = 0

    def see(self, token: Token) -> None:
        """A row begins."""
        if token.type == "tr_open" and token.map is not None:
            self.line, self._column = token.map[0] + 1, 0

    def anchors(self, content: str) -> Anchors:
        """Where the next cell is; pipes in it are escaped in the source."""
        line = self._source.lines[self.line - 1]
        written = content.replace("|", "\\|")
        column = line.find(written, self._column)
        if column < 0:
            return [(0, self._source.start(self.line) + self._column)]
        self._column = column + len(written)
        start = self._source.start(self.line) + column
        pipes = [at for at, one in enumerate(content) if one == "|"]
        return [(0, start), *((at, start + at + n) for n, at in enumerate(pipes, start=1))]
