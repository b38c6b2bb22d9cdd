"""
Whether a value is one that a text really says, and fits its schema: a judgement that shares no code
with mulligan's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
NUMBER = r"(-?[0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
BETWEEN = r"[\s\"'“”‘’`{}\[\]:,;\\]*"
"""What may stand between one word of a value and the next: marks, never a letter or a digit."""


def misfits(value: Any, schema: dict[str, Any], at: str = "$") -> list[str]:
    """Where a value does not fit, for the keywords that the tasks' schemas use."""
    kind = TYPES[schema["type"]]
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kind):
        return [f"{at} is no {schema['type']}"]
    wrong = []
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{at} is none of the words allowed")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            wrong.append(f"{at} has {len(value)} items")
        for number, item in enumerate(value):
            wrong += misfits(item, schema["items"], f"{at}[{number}]")
    if isinstance(value, dict):
        wrong += _misfits_of_object(value, schema, at)
    return wrong


def _misfits_of_object(value: dict[str, Any], schema: dict[str, Any], at: str) -> list[str]:
    known = schema["properties"]
    wrong = [f"{at}.{name} is missing" for name in schema["required"] if name not in value]
    for name, part in value.items():
        if name in known:
            wrong += misfits(part, known[name], f"{at}.{name}")
        elif schema.get("additionalProperties") is False:
            wrong.append(f"{at}.{name} is not allowed")
    return wrong


def says(text: str, value: Any) -> bool:
    """
    Whether the text holds the value's keys, words and numbers, all of them, in their order, with
    nothing but marks in between, and with nothing of a word or number left over at either end.
    """
    if any(found == value for found in _strict_values(text)):
        return True
    words = list(_words(value))
    pattern = BETWEEN.join(_pattern(word) for word in words)
    numbers = [word for word in words if _is_number(word)]
    return any(
        [_number(group) for group in match.groups()] == numbers
        for match in re.finditer(
            rf"(?<![\w.-]){pattern}(?=\s*(?:[\"'”’`}}\],]|$))", _unescaped(text)
        )
    )


def _strict_values(text: str) -> Iterator[Any]:
    """Every object or array that stands in the text as JSON."""
    decoder = json.JSONDecoder()
    for start in (match.start() for match in re.finditer(r"[{\[]", text)):
        try:
            yield decoder.raw_decode(text, start)[0]
        except ValueError:
            continue


def _words(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _words(part)
    elif isinstance(value, list):
        for part in value:
            yield from _words(part)
    else:
        yield value


def _pattern(word: Any) -> str:
    if _is_number(word):
        return NUMBER
    if word is None or isinstance(word, bool):
        return f"(?:{json.dumps(word)}|{word})"
    return r"\s*".join(re.escape(part) for part in word.split())


def _is_number(word: Any) -> bool:
    return isinstance(word, int | float) and not isinstance(word, bool)


def _number(text: str) -> float:
    return float(text.rstrip(",").replace(",", "").replace("_", ""))


def _unescaped(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", '"': '"', "/": "/", "\\": "\\"}
    return re.sub(r"\\([nt\"/\\])", lambda match: escapes[match[1]], text)
