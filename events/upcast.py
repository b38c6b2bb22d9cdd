"""
Old shapes of facts, lifted to the newest when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lift = Callable[[dict[str, Any]], dict[str, Any]]

LIFTS: dict[tuple[str, int], Lift] = {}
"""(tag, version) → the function that makes version + 1 of it; empty until a shape changes."""


def upcast(tag: str, version: int, newest: int, data: dict[str, Any]) -> dict[str, Any]:
    """
    Lift the fields of a fact step by step to its newest shape.

    Raises:
        LookupError: a step is missing, with the tag and the version it would start from.
    """
    for at in range(version, newest):
        lift = LIFTS.get((tag, at))
        if lift is None:
            raise LookupError(f"{tag} has shape {at}, which can't be lifted to {newest}")
        data = lift(data)
    return data
