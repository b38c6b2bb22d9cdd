"""Pure: secrets that must appear in nothing that leaves the bridge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["SHORTEST", "Redaction"]

SHORTEST = 6
"""Characters of a secret. A shorter one would be found in half of all texts."""
STARS = "***"
_SPACE = r"(?:\s|\+|\\[nrt]|%20|%C2%A0|%0[9AaDd])+"
"""Any white space: what pages show of it is one blank, and in queries a plus."""


class Redaction:
    """Replaces each secret, as it is and in the spellings of URLs, JSON and YAML, by stars."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._patterns = [
            _pattern(secret)
            for secret in sorted(set(secrets), key=len, reverse=True)
            if len(secret) >= SHORTEST
        ]

    def text(self, text: str) -> str:
        """The text without them."""
        for pattern in self._patterns:
            text = pattern.sub(STARS, text)
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


def _pattern(secret: str) -> re.Pattern[str]:
    """
    What matches a secret however each of its characters is written: browsers encode the path of a
    URL, its query and its fragment differently, and sites as they like.
    """
    plain = secret.strip()
    if len(plain) < SHORTEST:
        return re.compile(re.escape(secret))
    words = plain.split()
    return re.compile(_SPACE.join("".join(map(_written, word)) for word in words))


def _written(character: str) -> str:
    """A pattern of one character: as it is, in URLs, in JSON, in YAML."""
    encoded = character.encode(errors="surrogatepass")
    ways = {
        re.escape(character),
        "".join(f"%{_hex(byte, 2)}" for byte in encoded),
        "".join(rf"\\u{_hex(unit, 4)}" for unit in _utf16(character)),
        re.escape(json.dumps(character, ensure_ascii=False)[1:-1]),
        *(("''",) if character == "'" else ()),
    }
    return f"(?:{'|'.join(sorted(ways))})"


def _utf16(character: str) -> Iterator[int]:
    units = character.encode("utf-16-be", errors="surrogatepass")
    return (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))


def _hex(number: int, digits: int) -> str:
    """A pattern of a number in capital or small digits."""
    return "".join(f"[{one}{one.upper()}]" for one in f"{number:0{digits}x}")
