"""Who may be the author of something: the members that the request names, and nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

ALL = "all of them"
LEAVE_OUT = "leave it out"
"""Answers that name no member, so that no member may be called so."""


@dataclass(frozen=True)
class Member:
    """A member by name, and the other names that materials call them by."""

    name: str
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of their names."""
        return (self.name, *self.aliases)

    def named_in(self, text: str) -> bool:
        """Whether a text names them, as whole words."""
        return any(stands_in(name, text) for name in self.names)


def stands_in(words: str, text: str) -> bool:
    """Whether words stand in a text, as whole words, blanks and case aside."""
    wanted, whole = (" ".join(one.split()).casefold() for one in (words, text))
    return bool(wanted) and bool(re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", whole))


def same_name(one: str, other: str) -> bool:
    """Whether two spellings are one name: blanks and case aside."""
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()


class Members:
    """The members of a request."""

    def __init__(self, given: Iterable[dict[str, Any]]) -> None:
        self._members = [Member(one["name"], tuple(one["aliases"])) for one in given]

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def find(self, name: str | None) -> str | None:
        """The name of the member who is called so; None: nobody is."""
        return next(
            (m.name for m in self if name and any(same_name(name, one) for one in m.names)), None
        )

    def named_in(self, text: str) -> list[str]:
        """Those whom a text names."""
        return [member.name for member in self if member.named_in(text)]
