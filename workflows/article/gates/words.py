"""
Words and sentences. Sentences are found by sentencex, which needs no data but its own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sentencex.sentencex import get_sentence_boundaries

LANGUAGE = "en"
_WORD = re.compile(r"[^\W_]+(?:['’\-.,][^\W_]+)*")
"""Letters and digits; what joins two parts of one word stays inside: don't, re-read, 3.5, e.g."""


class Word(NamedTuple):
    """A word and where it stands in its text."""

    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """What it is compared by."""
        return self.text.lower().replace("’", "'")


class Sentence(NamedTuple):
    """Where a sentence stands in its text, without blanks around it, and how many words it has."""

    start: int
    end: int
    words: int


def words_of(text: str) -> list[Word]:
    """The words of a text, in order."""
    return [Word(found[0], found.start(), found.end()) for found in _WORD.finditer(text)]


def sentences_of(text: str) -> list[Sentence]:
    """The sentences of one block's text; those without a word are none."""
    plain = text.replace("\n", " ")
    found = []
    for one in get_sentence_boundaries(LANGUAGE, plain):
        start, end = one["start_index"], one["end_index"]
        part = plain[start:end]
        words = len(words_of(part))
        if words:
            lead = len(part) - len(part.lstrip())
            found.append(Sentence(start + lead, start + len(part.rstrip()), words))
    return found
