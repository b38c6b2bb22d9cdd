"""
A fact as it stands in the log, and as a decision hands it in.
"""

from __future__ import annotations

import msgspec

from mulligan.events.facts import Fact


class NewEvent(msgspec.Struct, frozen=True):
    """A fact that is not in the log yet, with the node instance and the attempt it is about."""

    data: Fact
    node: str | None = None
    attempt: int | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """
    A fact in the log.

    `id` is `<op>.<index>`: the operation that appended it and its place therein. `version` counts
    the run's events from 1. `time_ms` is the server's clock, in milliseconds since 1970.
    `causation` is the id of the event that led to this one; `correlation` names the undertaking it
    belongs to (the run, unless its producer named another).
    """

    id: str
    run: str
    version: int
    time_ms: int
    data: Fact
    node: str | None = None
    attempt: int | None = None
    causation: str | None = None
    correlation: str | None = None

    @property
    def type(self) -> str:
        """The fact's stable tag."""
        return type(self.data).__name__
