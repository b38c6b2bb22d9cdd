"""
A Markdown text as gates see it: blocks of prose, headings and sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from mulligan.workflows.article.gates.blocks import Found, Kind, blocks_of
from mulligan.workflows.article.gates.inline import Prose
from mulligan.workflows.article.gates.lines import Lines, Place
from mulligan.workflows.article.gates.words import Sentence, Word, sentences_of, words_of

SECTION_LEVEL = 2
"""Headings up to this level start a section; deeper ones belong to the section they stand in."""
OPENING = "(opening)"
"""The name of what stands before the first heading, and of a heading without text."""
CONTENT, TITLE = "content", "title"

TEXT: tuple[Kind, ...] = ("paragraph", "item", "cell", "quote", "footnote")
"""What has the words of a text."""
OWN: tuple[Kind, ...] = ("heading", "paragraph", "item", "cell", "footnote")
"""What is in the author's own words."""


class Section(NamedTuple):
    """
    From a heading of the first two levels to the next one. `name` is its heading's text, with a
    number where another has the same. `role` is `content`, `title` (what stands before the first
    heading of the second level), or what kind of structure it is.
    """

    name: str
    level: int
    role: str
    first_line: int
    end_line: int
    """the line after its last one"""


class Block:
    """A paragraph, heading, list item's paragraph or table cell; `level` is a heading's, or 0."""

    def __init__(self, found: Found, section: Section) -> None:
        self.kind = found.kind
        self.prose: Prose = found.prose
        self.line = found.line
        self.level = found.level
        self.ordered = found.ordered
        self.section = section

    @property
    def text(self) -> str:
        """What is read."""
        return self.prose.text

    @cached_property
    def words(self) -> list[Word]:
        """Its words, in order."""
        return words_of(self.text)

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Its sentences that have a word."""
        return sentences_of(self.text)


class Document:
    """
    A parsed text; any text is Markdown.

    Args:
        original: the text.
        roles: by role, the headings (in small letters) of sections that are structure.
    """

    def __init__(self, original: str, roles: Mapping[str, Sequence[str]]) -> None:
        self.lines = Lines(original)
        found = list(blocks_of(self.lines))
        self.sections = _sections(found, roles, len(self.lines.lines))
        self.blocks = tuple(_placed(found, self.sections))

    def place(self, offset: int) -> Place:
        """The line and column of an offset in the source."""
        return self.lines.place(offset)

    def start_of(self, block: Block) -> Place:
        """Where the prose of a block starts."""
        return self.place(block.prose.source(0)[0])

    def prose(self, *kinds: Kind) -> tuple[Block, ...]:
        """The blocks of these kinds in sections that are not structure."""
        return tuple(
            block
            for block in self.blocks
            if block.kind in kinds and block.section.role in (CONTENT, TITLE)
        )

    def in_section(self, section: Section) -> Sequence[Block]:
        """The blocks of a section, its headings included."""
        return self._by_section.get(section.name, ())

    @cached_property
    def _by_section(self) -> dict[str, list[Block]]:
        blocks: dict[str, list[Block]] = {}
        for block in self.blocks:
            blocks.setdefault(block.section.name, []).append(block)
        return blocks

    def in_role(self, role: str) -> tuple[Block, ...]:
        """The blocks of the sections of a role, without headings."""
        return tuple(
            block for block in self.blocks if block.section.role == role and block.kind != "heading"
        )

    @cached_property
    def word_count(self) -> int:
        """The words of the text: all but headings and sections that are structure."""
        return sum(len(block.words) for block in self.prose(*TEXT))


def _starts_section(found: Found) -> bool:
    return found.kind == "heading" and found.level <= SECTION_LEVEL


def _sections(
    found: Sequence[Found], roles: Mapping[str, Sequence[str]], line_count: int
) -> tuple[Section, ...]:
    heads = [one for one in found if _starts_section(one)]
    of_heading = {name: role for role, names in roles.items() for name in names}
    starts = [1, *(one.line for one in heads), line_count + 1]
    titled = _titled(heads)
    sections = [Section(OPENING, 0, TITLE, 1, starts[1])]
    counts: dict[str, int] = {}
    taken: set[str] = {OPENING}
    for number, one in enumerate(heads, start=1):
        text = " ".join(one.prose.text.split()) or OPENING
        name = _name(text, counts, taken)
        role = of_heading.get(_bare(text)) or (TITLE if titled and number == 1 else CONTENT)
        sections.append(Section(name, one.level, role, one.line, starts[number + 1]))
    return tuple(sections)


def _name(text: str, counts: dict[str, int], taken: set[str]) -> str:
    """The heading, with a number if its name is taken."""
    name = text
    while name in taken:
        counts[text] = counts.get(text, 1) + 1
        name = f"{text} ({counts[text]})"
    taken.add(name)
    return name


def _titled(heads: Sequence[Found]) -> bool:
    """Whether the first heading is of the first level, and those after it are not."""
    return bool(heads) and heads[0].level == 1 and all(one.level > 1 for one in heads[1:])


def _bare(heading: str) -> str:
    return heading.lower().strip(" \t.:0123456789)")


def _placed(found: Sequence[Found], sections: Sequence[Section]) -> list[Block]:
    blocks, at = [], 0
    for one in found:
        if _starts_section(one):
            at += 1
        blocks.append(Block(one, sections[at]))
    return blocks
