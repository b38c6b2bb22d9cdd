"""
Phrases: lists of words to find, what may stand in their place, and how they are found.

    find   words; `a|b` are alternatives; `*` is one to six words of the same sentence; a mark
           after the last word (`,` `?` `!` and so on) must be there
    use    the replacement, its alternatives in the order of those of `find`; "" to leave it out

Every word of a text is looked up once, so a long list costs little.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mulligan.workflows.article.gates.document import Block
from mulligan.workflows.article.gates.words import Word

WILD = "*"
MOST_WILD = 6
"""Words that `*` may stand for."""
_MARKS = ",?!:"
_WITHIN = re.compile(r"[^.!?;:]*")
"""What may stand between words that `*` parts."""


class Phrase(NamedTuple):
    """One entry of a list. `words` holds alternatives; an empty one is `*`."""

    id: str
    words: tuple[tuple[str, ...], ...]
    mark: str = ""
    use: str | None = None
    why: str | None = None
    starts: bool = False
    weight: float = 1.0


class Match(NamedTuple):
    """A phrase in a block, from and to where, and what may stand there if words can."""

    phrase: Phrase
    start: int
    end: int
    use: str | None


def phrase_of(
    find: str,
    *,
    use: str | None = None,
    why: str | None = None,
    starts: bool = False,
    weight: float = 1.0,
) -> Phrase:
    """The entry that is written like this. Raises ValueError that says what is wrong."""
    plain = find.strip().lower().replace("’", "'")
    mark = plain[-1] if plain and plain[-1] in _MARKS else ""
    words = tuple(
        () if word == WILD else tuple(one.strip(_MARKS) for one in word.split("|"))
        for word in plain.removesuffix(mark).split()
    )
    if not words or any("" in word for word in words):
        raise ValueError(f"{find!r} has no words, or an empty alternative")
    wild = words.count(())
    if wild > 1 or not words[0] or (use is not None and wild):
        raise ValueError(f"{find!r}: `*` may stand once, not first, and not where `use` is given")
    while words[-1] == ():
        words = words[:-1]
    _check_alternatives(find, words, use)
    return Phrase(_slug(plain), words, mark, use, why, starts, weight)


def _check_alternatives(find: str, words: Sequence[tuple[str, ...]], use: str | None) -> None:
    counts = {len(word) for word in words if len(word) > 1}
    offered = {len(word.split("|")) for word in (use or "").split() if "|" in word}
    if offered and offered != counts:
        raise ValueError(f"{find!r}: `use` needs as many alternatives as `find`")


def _slug(find: str) -> str:
    firsts = [word.split("|")[0] for word in find.split()]
    return "-".join(re.sub(r"[^\w-]", "", one) for one in firsts if one != WILD)


class Finder:
    """Finds the phrases of a list in blocks."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._by_first: dict[str, list[Phrase]] = defaultdict(list)
        for phrase in sorted(phrases, key=lambda one: -len(one.words)):
            for first in phrase.words[0]:
                self._by_first[first].append(phrase)

    def find(self, block: Block) -> Iterator[Match]:
        """The matches in a block, in order; none overlaps another, the longest is taken."""
        firsts = _firsts(block)
        at = 0
        while at < len(block.words):
            match, taken = self._at(block, at, firsts)
            if match is not None:
                yield match
            at += taken

    def _at(self, block: Block, at: int, firsts: set[int]) -> tuple[Match | None, int]:
        for phrase in self._by_first.get(block.words[at].key, ()):
            if phrase.starts and block.words[at].start not in firsts:
                continue
            end = _end(phrase, block, at)
            if end is not None:
                return _match(phrase, block, at, end), end - at
        return None, 1


def _firsts(block: Block) -> set[int]:
    """Where the first words of the sentences of a block start."""
    starts: set[int] = set()
    words = iter(block.words)
    for sentence in block.sentences:
        first = next((word for word in words if word.start >= sentence.start), None)
        if first is not None:
            starts.add(first.start)
    return starts


def _end(phrase: Phrase, block: Block, at: int) -> int | None:
    """The position after the last word of a phrase that starts at a word, if it is there."""
    words, text = block.words, block.text
    wild = False
    for wanted in phrase.words:
        if not wanted:
            wild = True
            continue
        found = _next(wanted, words, text, at, wild=wild, first=wanted is phrase.words[0])
        if found is None:
            return None
        at, wild = found + 1, False
    after = words[at - 1].end
    return at if not phrase.mark or text[after : after + 1] == phrase.mark else None


def _next(
    wanted: tuple[str, ...], words: Sequence[Word], text: str, at: int, *, wild: bool, first: bool
) -> int | None:
    if not wild:
        if at >= len(words) or words[at].key not in wanted:
            return None
        return at if first or not text[words[at - 1].end : words[at].start].strip() else None
    for found in range(at + 1, min(at + MOST_WILD + 1, len(words))):
        if not _WITHIN.fullmatch(text, words[found - 1].end, words[found].start):
            return None
        if words[found].key in wanted:
            return found
    return None


def _match(phrase: Phrase, block: Block, at: int, end: int) -> Match:
    start, until = block.words[at].start, block.words[end - 1].end + len(phrase.mark)
    if phrase.use is None:
        return Match(phrase, start, until, None)
    chosen = 0
    for word, wanted in zip(block.words[at:end], phrase.words, strict=True):
        chosen = wanted.index(word.key) if len(wanted) > 1 else chosen
    use = " ".join(_alternative(one, chosen) for one in phrase.use.split())
    return Match(phrase, start, until, use)


def _alternative(word: str, chosen: int) -> str:
    return word.split("|")[chosen] if "|" in word else word
