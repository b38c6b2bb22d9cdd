"""A problem in a definition: where it is and what is wrong, and the hints that problems carry."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

__all__ = ["Place", "Problem", "describe", "did_you_mean", "place_name"]

Place = tuple[str | int, ...]
"""Where in the document: keys and list positions from the root, e.g. `("nodes", 1, "needs")`."""


class Problem(NamedTuple):
    """
    One thing that is wrong.

    `line` is where, in the file that was read, if that is known already; else it is the line of
    `place`, `line_offset` lines into the text there, or that of the `item` in the list there.
    """

    place: Place
    message: str
    line_offset: int = 0
    item: int | None = None
    line: int | None = None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` with the known name closest to `name`, or nothing."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def place_name(place: Place) -> str:
    """The place as people write it: `nodes[1].needs`."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(parts).removeprefix(".")


def describe(source: str, problem: Problem, line: int | None = None) -> str:
    """The problem as one line: `brief.yaml:7: nodes[1].needs: no node 'colect'`."""
    parts = [source if line is None else f"{source}:{line}", place_name(problem.place)]
    return ": ".join([*filter(None, parts), problem.message])
