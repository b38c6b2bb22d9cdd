"""
Does a mended value say what the candidate said, all of it and nothing else (OUT-3, 6)?

Candidate and value are walked side by side. Free are quotes, separators, blanks, comments and the
spelling of escapes; every other character of the value must stand in the candidate, in order, at
the same level of nesting. A quote inside a string that the model did not escape is believed only
where it can't be the string's end: an opening one after a blank, a closing one after a word.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from mulligan.completion.inner_quotes import may_close, may_open
from mulligan.completion.respell import (
    foreign_escape_at,
    is_key,
    is_plain,
    python_escapes,
    spell_word,
)

_GAP = re.compile(
    r"(?:[\s\ufeff\u200b-\u200d\u2060]++|\\[nrt]|//[^\n]*+|/\*.*?\*/|\#[^\n]*+)*+", re.DOTALL
)
_WORD = re.compile(r"(?:(?!\\[nrt])[^\s\[\]{}(),:=\"“”])+")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_SINGLE_QUOTED = re.compile(r"'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|.)", re.DOTALL)
_ESCAPES = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_CLOSING = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "“”",
    "”": "“”",
    "„": "“”",
    "‟": "“”",
    "‘": "’",
    "«": "»",
}


class _Lost(Exception):
    """The value is not what the candidate says."""


def conserves(candidate: str, value: Any) -> bool:
    """Whether the value is the candidate's, character by character; the candidate is one value."""
    try:
        end = _value(candidate, _gap(candidate, 0), value)
    except _Lost:
        return False
    return _gap(candidate, end) == len(candidate)


def _gap(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at


def _expect(condition: bool) -> None:
    if not condition:
        raise _Lost


def _char(text: str, at: int) -> str:
    return text[at] if at < len(text) else ""


def _value(text: str, at: int, value: Any) -> int:
    """The position behind the value, which must begin at `at`."""
    match value:
        case dict():
            return _object(text, at, value)
        case list() | tuple():
            return _array(text, at, value)
        case str():
            return _string(text, at, value)
        case bool() | int() | float() | None:
            return _bare(text, at, value)
        case _:
            raise _Lost


def _object(text: str, at: int, value: dict[Any, Any]) -> int:
    _expect(_char(text, at) == "{")
    at = _gap(text, at + 1)
    for key, member in value.items():
        at = _key(text, at, key)
        at = _gap(text, at)
        _expect(_char(text, at) in (":", "="))
        at = _value(text, _gap(text, at + 1), member)
        at = _separator(text, at, "}")
    _expect(_char(text, at) == "}")
    return at + 1


def _array(text: str, at: int, value: list[Any] | tuple[Any, ...]) -> int:
    closer = {"[": "]", "(": ")"}.get(_char(text, at))
    if closer is None or (closer == ")" and not isinstance(value, tuple)):
        raise _Lost
    at = _gap(text, at + 1)
    for item in value:
        at = _separator(text, _value(text, at, item), closer)
    _expect(_char(text, at) == closer)
    return at + 1


def _separator(text: str, end: int, closer: str) -> int:
    """The position of what follows a value: behind its comma, at the closer, or behind a blank."""
    at = _gap(text, end)
    if _char(text, at) == ",":
        return _gap(text, at + 1)
    _expect(_char(text, at) == closer or _may_lack_comma(text, end, at, closer))
    return at


def _may_lack_comma(text: str, end: int, at: int, closer: str) -> bool:
    """As the respelling has it: before a key, between containers, at the end of a line."""
    if closer == "}":
        return at > end
    if text[end - 1] in "]})" and _char(text, at) in ("[", "{", "("):
        return True
    return "\n" in text[end:at] and not text[end - 1] == _char(text, at) == "'"


def _key(text: str, at: int, key: Any) -> int:
    _expect(isinstance(key, str))
    if _char(text, at) in _CLOSING:
        end = _string(text, at, key)
        _expect(is_plain(text[at:end]))
        return end
    word = _WORD.match(text, at)
    _expect(word is not None and word[0] == key and is_key(key))
    return at + len(key)


def _bare(text: str, at: int, value: Any) -> int:
    word = _WORD.match(text, at)
    spelled = spell_word(word[0]) if word else None
    if word is None or spelled is None:
        raise _Lost
    try:
        meant = json.loads(spelled)
    except ValueError:
        raise _Lost from None
    _expect(type(meant) is type(value) and meant == value)
    return word.end()


def _string(text: str, at: int, value: str) -> int:
    """A quoted string whose content is the value; returns the position behind its last quote."""
    opening = _char(text, at)
    closing = _CLOSING.get(opening)
    if closing is None:
        raise _Lost
    python = _SINGLE_QUOTED.match(text, at)
    if python and python_escapes(python[0]):
        return _python_string(python, value)
    for width in (3, 1):
        if text.startswith(opening * width, at):
            end = _content(text, at + width, value, closing)
            if end is not None and all(char in closing for char in text[end : end + width]):
                _expect(len(text) >= end + width)
                return end + width
    raise _Lost


def _python_string(piece: re.Match[str], value: str) -> int:
    try:
        _expect(bool(ast.literal_eval(piece[0]) == value))
    except (ValueError, SyntaxError):
        raise _Lost from None
    return piece.end()


def _content(text: str, at: int, value: str, closing: str) -> int | None:
    """Match the value against a string's content; None where it differs."""
    special = re.compile("[\\\\" + re.escape(closing) + "]")
    done, inner = 0, 0
    while done < len(value):
        match = special.search(text, at)
        stop = match.start() if match else len(text)
        plain = text[at : min(stop, at + len(value) - done)]
        if not value.startswith(plain, done):
            return None
        done, at = done + len(plain), at + len(plain)
        if done == len(value) or at >= len(text):
            break
        said, width = _special(text, at)
        if not value.startswith(said, done) or not _may_stay(text, at, closing, inner):
            return None
        inner += text[at] in closing and not _within_word(text, at)
        done, at = done + len(said), at + width
    return at if done == len(value) and inner % 2 == 0 else None


def _special(text: str, at: int) -> tuple[str, int]:
    """What a backslash escape or an inner quote says, and its width in the candidate."""
    if text[at] != "\\":
        return text[at], 1
    match = _ESCAPE.match(text, at)
    if match is None or foreign_escape_at(text, at):
        raise _Lost
    piece = match[0]
    if len(piece) > 2:
        return json.loads(f'"{piece}"'), len(piece)
    if piece[1] in _ESCAPES:
        return _ESCAPES[piece[1]], 2
    return (piece[1] if piece[1] in "'`" else piece), len(piece)


def _may_stay(text: str, at: int, closing: str, inner: int) -> bool:
    """Whether an unescaped quote can be part of the string: opening and closing ones by turns."""
    if text[at] == "\\" or text[at] not in closing or _within_word(text, at):
        return True
    return may_close(text, at) if inner % 2 else may_open(text, at)


def _within_word(text: str, at: int) -> bool:
    """Whether the quote is an apostrophe between two characters of a word, as the scan has it."""
    return _APOSTROPHE.match(text, at) is not None
