"""Pure: secrets that must appear in nothing that leaves the bridge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["SHORTEST", "Redaction"]

SHORTEST = 6
"""Characters of a secret. A shorter one would be found in half of all texts."""
STARS = "***"


class Redaction:
    """Replaces each secret, as it is and in the spellings of URLs, JSON and YAML, by stars."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings: set[str] = set()
        for secret in secrets:
            if len(secret) >= SHORTEST:
                spellings |= _spellings(secret)
        self._spellings = sorted(spellings, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without them."""
        for spelling in self._spellings:
            text = text.replace(spelling, STARS)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without them, in keys or texts."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.value(one) for one in value]
            case dict():
                return {self.text(name): self.value(one) for name, one in value.items()}
            case _:
                return value


def _spellings(secret: str) -> set[str]:
    collapsed = " ".join(secret.split())
    return {
        secret,
        collapsed,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        secret.replace("'", "''"),
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
    }
