"""
Quotes and brackets of sloppy text: what is open at the end, and which pieces it has (OUT-3, 3).

The reader is deliberately plain. A quote opens or closes a string by what stands before it, never
by what would make the text come out right: a guess here could hide a cut. Where a model forgot
to escape a quote the count is odd as often as not, and then the text counts as cut off: asking
again is dear, a wrong value is dearer.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["comment", "end", "string", "open", "close", "comma", "colon", "word", "broken"]

MAX_TOKENS = 20_000
"""Tokens beyond these are read but not kept; nothing with so many is mended."""

MAX_FINE_CHARACTERS = 65_536
"""Longer texts are read coarsely, since they are not mended."""

MAX_SCAN_DEPTH = 1_000
"""Ten times what is accepted: here reading stops, and nobody cares any more what is open."""

QUOTES = "\"'`“”„‟‘’«»"

# Possessive quantifiers: a string that never ends must fail in one pass.
_BLANK = r"(?:[\s\ufeff\u200b-\u200d\u2060]|\\[nrt])"
_WORD = r"""(?:(?!/\*|\\[nrt])[^\s\[\]{}(),:="'`“”„‟‘’«»\ufeff\u200b-\u200d\u2060]
               (?:(?!\\[nrt])[^\s\[\]{}(),:="`“”„‟«»\ufeff\u200b-\u200d\u2060])*+)"""
_PIECES = r"""
    | (?P<comment>//[^\n]*+ | /\*.*?\*/ | (?<![^\s,\[\]{}])\#[^\n]*+)
    | (?P<string>
          \"\"\"(?=[^\s,:\]\}])[^\\]*?(?:\\.[^\\]*?)*?\"\"\"
        | \'\'\'(?=[^\s,:\]\}])[^\\]*?(?:\\.[^\\]*?)*?\'\'\'
        | "[^"\\]*+(?:\\.[^"\\]*+)*+"
        | '(?:[^'\\]++|\\.|(?<=\w)'(?=\w))*+'
        | `[^`\\]*+(?:\\.[^`\\]*+)*+`
        | [“”„‟][^“”\\]*+(?:\\.[^“”\\]*+)*+[“”]
        | ‘[^’\\]*+(?:\\.[^’\\]*+)*+’
        | «[^»\\]*+(?:\\.[^»\\]*+)*+»
      )
    | (?P<open>[\[{(])
    | (?P<close>[\]})])
"""
_FLAGS = re.VERBOSE | re.DOTALL
_TOKEN = re.compile(
    rf"{_BLANK}*+ (?: (?P<comma>,) | (?P<colon>[:=]) {_PIECES} | (?P<word>{_WORD})"
    r"| (?P<end>\Z) | (?P<broken>.) )",
    _FLAGS,
)
# The same pieces for texts too long to be mended: what stands between strings and brackets is one.
_COARSE = re.compile(
    rf"{_BLANK}*+ (?: (?P<word>(?:{_BLANK} | [,:=] | (?!//|\#){_WORD})++) {_PIECES}"
    r"| (?P<end>\Z) | (?P<broken>.) )",
    _FLAGS,
)

_CLOSER = {"{": "}", "[": "]", "(": ")"}
_OPENER = {closer: opener for opener, closer in _CLOSER.items()}
_NAME = {"{": "object", "[": "array", "(": "parenthesis"}


class Token(NamedTuple):
    """A piece of text: what it is, and where it stands."""

    kind: Kind
    start: int
    end: int


_new = tuple.__new__  # a third of the time of Token(…), and this is the hottest loop


class Group(NamedTuple):
    """
    A bracket with all that it holds.

    `left_open` names what is open at the end of the text (`string`, `comment`, `object`, …), None
    if the group is closed; `pending` are the closers that are missing, innermost first; `tokens`
    are without blanks and comments; `balanced` is false if a closer did not fit its opener.
    """

    start: int
    end: int
    tokens: list[Token]
    left_open: str | None
    pending: str
    balanced: bool
    depth: int

    def rebased(self) -> Group:
        """The same group in a text that begins with it."""
        if self.start == 0:
            return self
        tokens = [
            Token(kind, start - self.start, end - self.start) for kind, start, end in self.tokens
        ]
        return self._replace(start=0, end=self.end - self.start, tokens=tokens)


def group_at(text: str, start: int) -> Group:
    """Read the bracket that opens at `start` up to the closer that ends it, or to the end."""
    tokens: list[Token] = []
    stack = _Stack()
    end = len(text)
    pattern = _TOKEN if end - start <= MAX_FINE_CHARACTERS else _COARSE
    for match in pattern.finditer(text, start):
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        if kind in ("comment", "end"):
            continue
        span = match.span(kind)
        if kind == "broken":
            name = "comment" if text[span[0]] == "/" else "string"
            return stack.group(start, end, tokens, name)
        if len(tokens) <= MAX_TOKENS:
            tokens.append(_new(Token, (kind, *span)))
        if kind == "open":
            stack.push(text[span[0]])
            if stack.depth > MAX_SCAN_DEPTH:
                break
        elif kind == "close":
            stack.close(text[span[0]])
            if not stack.openers:
                return stack.group(start, span[1], tokens, None)
    return stack.group(start, end, tokens, _NAME[stack.openers[-1]])


class _Stack:
    """The brackets that are open, innermost last."""

    def __init__(self) -> None:
        self.openers: list[str] = []
        self.counts = {opener: 0 for opener in _CLOSER}
        self.balanced, self.depth = True, 0

    def push(self, opener: str) -> None:
        self.openers.append(opener)
        self.counts[opener] += 1
        self.depth = max(self.depth, len(self.openers))

    def close(self, closer: str) -> None:
        """Close the nearest bracket that fits, and what was opened within it; else do nothing."""
        wanted = _OPENER[closer]
        self.balanced &= self.openers[-1] == wanted
        while self.counts[wanted]:
            opener = self.openers.pop()
            self.counts[opener] -= 1
            if opener == wanted:
                return

    def group(self, start: int, end: int, tokens: list[Token], left_open: str | None) -> Group:
        pending = "".join(_CLOSER[opener] for opener in reversed(self.openers))
        return Group(start, end, tokens, left_open, pending, self.balanced, self.depth)
