"""
What a repaired value says that the candidate did not (OUT-6, on the overseer's answer).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mulligan.completion.places import parts
from mulligan.completion.validate import compiled, pointer

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-?\.\d+")


def novel_paths(value: Any, candidate: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    """
    The paths (JSON pointers, `*` for keys that the schema does not name) of strings and numbers
    that neither occur in the candidate nor are enum values, constants or defaults of the schema.
    """
    given = list(_given(schema))
    texts = {text for text in given if isinstance(text, str)}
    numbers = {number for number in given if _is_number(number)} | set(_numbers_in(candidate))
    names = compiled(schema).names
    found = [
        pointer(path, names)
        for path, part in parts(value, lambda part: isinstance(part, str) or _is_number(part))
        if not (part in numbers if _is_number(part) else part in texts or _occurs(part, candidate))
    ]
    return tuple(sorted(found))


def _is_number(part: Any) -> bool:
    return isinstance(part, int | float) and not isinstance(part, bool)


def _numbers_in(text: str) -> Iterator[float]:
    for match in _NUMBER.finditer(text):
        try:
            yield float(match[0]) if re.search(r"[.eE]", match[0]) else int(match[0])
        except ValueError:  # more digits than the interpreter converts
            continue


def _occurs(text: str, candidate: str) -> bool:
    """Whether the candidate has the text, as it is or escaped in one of JSON's ways."""
    spellings = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return any(spelling in candidate for spelling in spellings)


def _given(schema: object) -> Iterator[Any]:
    """Every scalar under enum, const and default, anywhere in the schema."""
    stack: list[object] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            for word in ("enum", "const", "default"):
                yield from (part for _, part in parts(node.get(word), lambda part: True))
            stack += node.values()
        elif isinstance(node, list):
            stack += node
