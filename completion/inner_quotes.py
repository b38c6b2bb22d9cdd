"""
Quotes that a model forgot to escape: `{"a": "say "hi" to"}`.

To the scan these are three pieces, `"say "`, `hi` and `" to"`. They are one string where the quotes
within can be told from its end by what stands beside them: an opening one has a blank before and
text after it, a closing one has text before and a blank or a stop after it, and what follows it
does not go on as JSON would.
"""

from __future__ import annotations

import re

from mulligan.completion.scan import Token

BEFORE_OPENING = frozenset(" \t\n([{-—–/")
AFTER_CLOSING = frozenset(" \t\n.,;:!?)]}-—–/…'")

_GOES_ON_AS_JSON = re.compile(
    r"\s*(?:[:\]}]|$|,\s*(?:[\[{\"'\]}“]|-?\d|(?:true|false|null|True|False|None)\b|[\w$]+\s*[:=]))"
)


_MEMBER_FOLLOWS = re.compile(
    r"\s*[\]}]*\s*[,:]\s*(?:[\"'“”‘{\[]|-?\d|(?:true|false|null)\b|[\w$]+\s*[:=])"
)
_OTHER_QUOTE = re.compile(r"(?<!\\)(?:\\\\)*+([\"“”])")


def mixed(piece: str) -> bool:
    """
    Whether a quote of another kind may be the end of this string: `“x", "b": "y”` is two strings
    as likely as one. Quotes within are taken by turns; only one that closes nothing can be the end.
    """
    own, opened = _FAMILY.get(piece[0], piece[0]), False
    for quote in _OTHER_QUOTE.finditer(piece, 1, len(piece) - 1):
        if quote[1] in own:
            continue
        if not opened and _MEMBER_FOLLOWS.match(piece, quote.end()):
            return True
        opened = not opened
    return False


_FAMILY = {"“": "“”„‟", "”": "“”„‟", "„": "“”„‟", "‟": "“”„‟"}


def may_open(text: str, at: int) -> bool:
    """Whether the quote at this place can open a quotation within a string."""
    after = text[at + 1 : at + 2]
    return text[at - 1] in BEFORE_OPENING and not after.isspace() and after not in ",:]}="


def may_close(text: str, at: int) -> bool:
    """Whether the quote at this place can close a quotation, and can't end the string."""
    if text[at - 1].isspace() or text[at + 1 : at + 2] not in AFTER_CLOSING:
        return False
    return _GOES_ON_AS_JSON.match(text, at + 1) is None


def rejoined(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens, with the pieces of such strings put together."""
    out: list[Token] = []
    skipped = -1
    for index, token in enumerate(tokens):
        if index <= skipped:
            continue
        if token.kind == "string" and _continues(text, tokens, index):
            skipped = _last_piece(text, tokens, index)
            token = token._replace(end=tokens[skipped].end)
        out.append(token)
    return out


def _last_piece(text: str, tokens: list[Token], first: int) -> int:
    """The index of the token that ends the string which begins with the first."""
    last = first
    while _continues(text, tokens, last):
        closing = _next_string(text, tokens, last + 1)
        if closing is None or not may_close(text, tokens[closing].start):
            return last
        last = closing
    return last


def _continues(text: str, tokens: list[Token], index: int) -> bool:
    token = tokens[index]
    quoted = token.kind == "string" and text[token.start] == '"' and token.end - token.start > 1
    adjacent = index + 1 < len(tokens) and tokens[index + 1].start == token.end
    return quoted and adjacent and may_open(text, token.end - 1)


def _next_string(text: str, tokens: list[Token], index: int) -> int | None:
    for at in range(index, len(tokens)):
        if tokens[at].kind == "string":
            return at if text[tokens[at].start] == '"' else None
        if tokens[at].kind in ("open", "close"):
            return None
    return None
