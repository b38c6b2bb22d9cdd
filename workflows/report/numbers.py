"""
The numbers of a text, in digits and in English words: one that is made up is noticed however it is
spelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BELOW_TWENTY = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENTHS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: number for number, word in enumerate(_BELOW_TWENTY)}
_TENS = {word: 10 * number for number, word in enumerate(_TENTHS, start=2)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9}
_WORDS = _SMALL | _TENS | _SCALES
_WORD = "|".join(_WORDS)
_SPELLED = rf"\b(?:{_WORD})(?:(?:\s+and\s+|[\s-]+)(?:{_WORD}))*\b"
_DIGITS = r"\d+(?:[.,:/]\d+)*|[\u00bc-\u00be\u2150-\u215e]"
_NUMBER = re.compile(rf"{_DIGITS}|{_SPELLED}", re.IGNORECASE)
_THOUSANDS = re.compile(r",(?=\d{3}(?:\D|$))")


def numbers_in(text: str) -> Iterator[tuple[str, str]]:
    """
    Each number as it is spelled, and in digits: 1,250 and 1250 are one number, and so are three and
    3; 1.5 and 15 are not, nor are 3:30 and 330. `one` alone is a pronoun more often than a number.
    """
    for found in _NUMBER.finditer(text):
        spelled = found[0]
        if spelled[0].isalpha():
            yield from _in_words(spelled)
        else:
            yield spelled, _THOUSANDS.sub("", spelled)


def _in_words(spelled: str) -> Iterator[tuple[str, str]]:
    """The numbers of words side by side: `two hundred and five` is one, `two three` are two."""
    words = re.split(r"[\s-]+", spelled.lower())
    number: list[str] = []
    for word in words:
        if number and not _continues(number, word):
            yield from _told(number)
            number = []
        if word != "and" or number:
            number.append(word)
    yield from _told(number)


def _continues(number: list[str], word: str) -> bool:
    last = next(one for one in reversed(number) if one != "and")
    if word == "and":
        return last in _SCALES
    if word in _SCALES:
        return number[-1] != "and" and _WORDS[last] != _WORDS[word]
    if last in _TENS:
        return word in _SMALL and 0 < _SMALL[word] < 10 and number[-1] != "and"
    return last in _SCALES


def _told(number: list[str]) -> Iterator[tuple[str, str]]:
    words = [word for word in number if word != "and"]
    if words and words != ["one"]:
        yield " ".join(words), str(_value(words))


def _value(words: list[str]) -> int:
    total, part = 0, 0
    for word in words:
        if word not in _SCALES:
            part += _WORDS[word]
        elif _SCALES[word] <= 100:
            part = max(part, 1) * _SCALES[word]
        else:
            total += max(part, 1) * _SCALES[word]
            part = 0
    return total + part
