"""
The JSON spelling of sloppy tokens (OUT-3, 6: what counts as equal, spelled the JSON way).

Quotes, raw control characters and invalid escapes in strings, bare keys, `=` for a colon, `+5`,
`.5`, True, False, None, a trailing comma, a comma missing at a line's end. Every token stands for
itself alone: nothing is moved, nothing but a separator is added. The result need not be JSON.
"""

from __future__ import annotations

import json
import re

from mulligan.completion.scan import Token

_NUMBER = re.compile(r"([+-]?)(\d*)((?:\.\d+)?)((?:[eE][+-]?\d+)?)")
_KEY = re.compile(r"[^\W\d][\w$-]*|\$[\w$-]*|0|[1-9]\d*")
_VALUES = frozenset({"string", "word", "open"})
_VALUE_ENDS = frozenset({"string", "word", "close"})
_JSON_STRING = re.compile(r'"[^"\\\x00-\x1f]*+"')
_NOT_PLAIN = re.compile(r"\n|\r|(?<!\\)\"")
_LITERALS = {
    "true": "true",
    "True": "true",
    "false": "false",
    "False": "false",
    "null": "null",
    "None": "null",
}
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTER_ESCAPE = re.compile(r"\\(?:[bfnrt]|u[0-9a-fA-F]{4})")
_TO_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)|[\"\x00-\x1f]", re.DOTALL)
# Escapes of Python and JavaScript that JSON lacks: their meaning depends on the language meant.
_FOREIGN_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|0|N\{|U[0-9a-fA-F]{8}|\n|\r)")
_PYTHON_ESCAPE = re.compile(r"\\[1-7av]")


def ambiguous_escapes(text: str) -> bool:
    r"""
    Whether backslashes may mean two things here: `C:\dir\new` has one that is no escape, so the
    writer did not escape backslashes, and `\n` may be two characters or a newline.
    """
    pieces = _ESCAPE.findall(text)
    unescaped = any(piece[1] not in "\"'`\\/bfnrtu" or piece == "\\u" for piece in pieces)
    return unescaped and any(_LETTER_ESCAPE.fullmatch(piece) for piece in pieces)


def foreign_escapes(text: str) -> bool:
    r"""Whether there are escapes such as `\x41`, of a language other than JSON."""
    return _FOREIGN_ESCAPE.search(text.replace("\\\\", "")) is not None


def foreign_escape_at(text: str, at: int) -> bool:
    """Whether such an escape begins at this place."""
    return _FOREIGN_ESCAPE.match(text, at) is not None


def python_escapes(piece: str) -> bool:
    """Whether a single-quoted string has escapes that only Python reads."""
    plain = piece.replace("\\\\", "")
    return foreign_escapes(piece) or _PYTHON_ESCAPE.search(plain) is not None


def respell(text: str, tokens: list[Token]) -> str | None:
    """The tokens of a balanced group in JSON spelling, or None if one of them has none."""
    out: list[str] = []
    stack: list[str] = []
    before: Token | None = None
    for index, token in enumerate(tokens, start=1):
        kind, start, end = token
        after = tokens[index].kind if index < len(tokens) else "end"
        piece: str | None = text[start:end]
        if kind in _VALUES:
            if before is not None and before.kind in _VALUE_ENDS:
                if not _lacks_comma(text, stack, before, token, after):
                    return None
                out.append(",")
            if kind == "open":
                stack.append(text[start])
            elif kind == "string":
                piece = _spelled_string(text[start:end], after == "colon")
            else:
                piece = _spelled_word(text[start:end], after == "colon")
        elif kind == "comma":
            if before is None or before.kind not in _VALUE_ENDS:
                return None
            piece = "" if after == "close" else ","
        elif kind == "colon":
            piece = ":"
        else:
            stack.pop()
        if piece is None or piece in ("(", ")"):
            return None
        out.append(piece)
        before = token
    return "".join(out)


def _spelled_string(piece: str, is_a_key: bool) -> str | None:
    if _JSON_STRING.fullmatch(piece):
        return piece
    return spell_string(piece) if not is_a_key or is_plain(piece) else None


def _spelled_word(piece: str, is_a_key: bool) -> str | None:
    if is_a_key:
        return f'"{piece}"' if is_key(piece) else None
    return spell_word(piece)


def is_key(word: str) -> bool:
    """Whether a bare word may be a key as it stands."""
    return word not in _LITERALS and _KEY.fullmatch(word) is not None


def is_plain(piece: str) -> bool:
    """Whether a quoted key is on one line and holds no bare quote: else its end was lost."""
    return _NOT_PLAIN.search(piece, 1, len(piece) - 1) is None


def spell_word(word: str) -> str | None:
    """A literal or a number in JSON spelling; None for any other bare word."""
    if word in _LITERALS:
        return _LITERALS[word]
    number = _NUMBER.fullmatch(word)
    if number is None or not (number[2] or number[3]):
        return None
    if len(number[2]) > 1 and number[2][0] == "0":
        return None
    return number[1].replace("+", "") + (number[2] or "0") + number[3] + number[4]


def spell_string(piece: str) -> str | None:
    """A quoted string of any kind in JSON spelling; None if its escapes are not JSON's."""
    width = 3 if piece[:3] in ('"""', "'''") and len(piece) >= 6 else 1
    content = piece[width:-width]
    if "\\" in content and (python_escapes if piece[0] == "'" else foreign_escapes)(content):
        return None
    if piece[0] == "`" and "${" in content:
        return None
    return '"' + _TO_ESCAPE.sub(_escaped, content) + '"'


def _escaped(match: re.Match[str]) -> str:
    piece = match[0]
    if len(piece) == 1:
        return json.dumps(piece)[1:-1]
    if len(piece) > 2 or piece[1] in '"\\/bfnrt':
        return piece
    return piece[1] if piece[1] in "'`" else "\\\\" + piece[1:]


def _lacks_comma(text: str, stack: list[str], before: Token, token: Token, after: str) -> bool:
    """Whether a comma that is missing between the two tokens can have stood nowhere else."""
    gap = text[before.end : token.start]
    if stack and stack[-1] == "{":
        return bool(gap) and after == "colon"
    if before.kind == "close" and token.kind == "open":
        return True
    # Python joins adjacent strings, so two of them are one or two by the language meant.
    joined = before.kind == token.kind == "string" and text[before.start] != '"'
    return "\n" in gap and not joined
