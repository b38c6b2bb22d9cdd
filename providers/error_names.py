"""
How a provider named its error: identifiers that people can look up, and nothing else.

An error's message may quote the prompt, the output or the key, and is never kept. Its `code`,
`type` and `param` are words of the provider's own; they are kept where they look like that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FIELDS = ("code", "type", "param")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,63}")
_KEY = re.compile(r"(sk|pk|rk|gsk|xai|key|AIza)[-_]|AIza|Bearer", re.IGNORECASE)
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_REQUEST_HEADERS = ("x-request-id", "request-id")
LONGEST_WORD = 12
"""Characters of a part of an identifier that holds digits: those of keys and tokens are longer."""


def named_by(error: Mapping[str, Any]) -> str | None:
    """`code …, type …, param …` of an error object, each once and only where it is safe to tell."""
    told: dict[str, str] = {}
    for field in _FIELDS:
        value = error.get(field)
        if isinstance(value, str) and _safe(value):
            told.setdefault(value, field)
    return ", ".join(f"{field} {value}" for value, field in told.items()) or None


def with_request(named: str | None, headers: Mapping[str, str]) -> str | None:
    """`named`, and the provider's own id of the request, by which it can find it again."""
    ids = (headers.get(name, "") for name in _REQUEST_HEADERS)
    known = next((f"request {one}" for one in ids if _REQUEST_ID.fullmatch(one)), None)
    return ", ".join(filter(None, (named, known))) or None


def _safe(value: str) -> bool:
    if not _IDENTIFIER.fullmatch(value) or _KEY.match(value):
        return False
    words = re.split(r"[_.\[\]-]", value)
    return not any(len(word) > LONGEST_WORD and re.search(r"\d", word) for word in words)
