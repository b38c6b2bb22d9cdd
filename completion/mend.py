"""
From one malformed candidate to its value, if that adds, drops and changes nothing (OUT-3, 5 and 6).

Three readers in turn: the tokens in JSON spelling, Python's literals, json-repair. The first keeps
every token in its place and so conserves by its nature (a test holds it to that); what the others
propose is believed only if it conserves the candidate.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mulligan.completion.bounded import MAX_MEND_BYTES, repaired
from mulligan.completion.conserve import conserves
from mulligan.completion.decode import MAX_DEPTH, Unusable, decode
from mulligan.completion.inner_quotes import mixed, rejoined
from mulligan.completion.respell import ambiguous_escapes, respell
from mulligan.completion.scan import MAX_TOKENS, Group
from mulligan.completion.verdict import Step


class Mended(msgspec.Struct, frozen=True):
    """A value, and the reader that found it."""

    value: Any
    step: Step

    def __repr__(self) -> str:
        return f"Mended(<{type(self.value).__name__}>, {self.step})"


_OVERSIZE = Unusable(
    "oversize", f"malformed, and beyond the {MAX_MEND_BYTES} bytes that are mended"
)
_TOO_DEEP = Unusable("too_deep", f"nested deeper than {MAX_DEPTH} levels")
_UNBALANCED = Unusable("unbalanced", "a closing bracket does not fit the one that was opened")
_ESCAPES = Unusable("ambiguous_escape", "backslashes stand for themselves and for escapes")
_QUOTES = Unusable("mixed_quotes", "a string begins with one kind of quote and may end in another")
_NOT_CONSERVED = Unusable("malformed", "no reading keeps all that the text says and adds nothing")

_PYTHON = re.compile(r"'|\b(?:True|False|None)\b|\(")
_NO_ESCAPE = re.compile(r"\\[^'\"abfnrtvxuUN0-7]")  # Python warns of it
_NOT_PYTHON = re.compile(r"[A-Za-z_]\w*\s*\(|//|\*\*|@|\blambda\b|\bfor\b|\bif\b")


def mend(text: str, group: Group) -> Mended | Unusable:
    """The value of a malformed but whole candidate; `group` is the scan of the same text."""
    if len(text.encode()) > MAX_MEND_BYTES or len(group.tokens) > MAX_TOKENS:
        return _OVERSIZE
    if group.depth > MAX_DEPTH:
        return _TOO_DEEP
    if not group.balanced:
        return _UNBALANCED
    if "\\" in text and ambiguous_escapes(text):
        return _ESCAPES
    if any(map(mixed, _strings(text, group))):
        return _QUOTES
    if (spelled := _respelled(text, group)) is not None:
        return spelled
    for reader in (_python, _json_repair):
        found = reader(text, group)
        if found is not None and conserves(text, found.value):
            return msgspec.structs.replace(found, value=_as_json(found.value))
    return _NOT_CONSERVED


def _respelled(text: str, group: Group) -> Mended | Unusable | None:
    """Spell each token the JSON way; what then is refused (a duplicate key) is refused for good."""
    spelled = respell(text, group.tokens)
    if spelled is None:
        spelled = respell(text, rejoined(text, group.tokens))
    result = None if spelled is None else decode(spelled)
    if result is None or isinstance(result, Unusable):
        return result
    return Mended(result.value, Step("respelled"))


def _python(text: str, group: Group) -> Mended | None:
    """Python's own reading of what looks like Python."""
    if not _PYTHON.search(text) or _NO_ESCAPE.search(text.replace("\\\\", "")):
        return None
    if _NOT_PYTHON.search(_outside_strings(text, group)):
        return None
    try:
        return Mended(ast.literal_eval(text), Step("python_literal"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _strings(text: str, group: Group) -> Iterator[str]:
    return (text[token.start : token.end] for token in group.tokens if token.kind == "string")


def _outside_strings(text: str, group: Group) -> str:
    return " ".join(
        text[token.start : token.end] for token in group.tokens if token.kind != "string"
    )


def _json_repair(text: str, group: Group) -> Mended | None:
    found = repaired(text)
    return None if found is None else Mended(found[0], Step("json_repair"))


def _as_json(value: Any) -> Any:
    """Tuples as lists; all else is JSON already."""
    match value:
        case dict():
            return {key: _as_json(member) for key, member in value.items()}
        case list() | tuple():
            return [_as_json(item) for item in value]
        case _:
            return value
