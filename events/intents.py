"""
The port of a witness outside the log: which writes have begun, kept where no failover reaches.

A server that is set back (a failover, an older file) has lost the starts of writes that may have
taken effect, and nothing that it holds shows that. So each start is also noted with a witness,
after it is in the log and before the write begins. A write begins only if its own note is the first
of its execution and the log has all that the witness has of its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """
    An `execution` of a write that is about to begin: of a call, or of a function node (then the
    node's id, and how often it has started). `event` is the id of the event that announced it,
    `digest` that of its arguments, `code` its path. One that can't be read has no event.
    """

    run: str
    call_id: str
    execution: int
    event: str = ""
    code: str = ""
    digest: str = ""
    at_ms: int = 0


class Intents(Protocol):
    """A witness; safe for use by threads and by any number of workers."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def check(self) -> None:
        """
        See whether intents can be kept.

        Raises:
            IntentsUnfit: they can't; the message says what to do.
        """
        ...

    def note(self, intent: Intent) -> bool:
        """
        Keep it, on disk before this returns. False: the execution was noted before.

        Raises:
            IntentsUnfit: it may not be kept.
        """
        ...

    def of_run(self, run: str) -> list[Intent]:
        """
        All that was noted of a run, by call and execution.

        Raises:
            IntentsUnfit: they can't be read.
        """
        ...

    def runs(self) -> Iterator[str]:
        """
        The runs of which something was noted.

        Raises:
            IntentsUnfit: they can't be read.
        """
        ...
