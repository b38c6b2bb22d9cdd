"""
What facts do to a stored row: by their tags, so that most need not be decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact
from mulligan.events.unopened import Part, Unopened

Event: TypeAlias = Envelope | Unopened
"""An event that is folded into a row."""

RowChange: TypeAlias = Callable[[Any, Event], None]
"""Changes a row, in place, by an event."""


def by_tag(
    *changes: tuple[RowChange, Iterable[type[Fact]]],
) -> dict[str, tuple[RowChange, ...]]:
    """The changes for each tag, in the order in which they are given."""
    found: dict[str, tuple[RowChange, ...]] = {}
    for change, kinds in changes:
        for kind in kinds:
            found[kind.__name__] = (*found.get(kind.__name__, ()), change)
    return found


def part_of(event: Event, kind: type[Part]) -> Part:
    """Those fields of an event's fact that `kind` has: all that a row needs of a large one."""
    return event.part(kind) if isinstance(event, Unopened) else cast(Part, event.data)
