"""
The port to the archive: ended runs, whole, outside the log's server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec


class StoredEvent(msgspec.Struct, frozen=True):
    """An event as it is stored: the server's milliseconds at its append, and its bytes."""

    time_ms: int
    raw: bytes


class ArchivedRun(msgspec.Struct, frozen=True, kw_only=True):
    """
    All of a run: its events from version 1 on, the large values that they name by their digests,
    and its row of each stored projection.
    """

    run: str
    events: tuple[StoredEvent, ...]
    payloads: Mapping[str, bytes]
    rows: Mapping[str, bytes]


class Archive(Protocol):
    """
    Runs by id. Safe for use by threads, and by any number of processes; every process that reads
    runs has to reach the same one.
    """

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def keep(self, runs: Sequence[ArchivedRun]) -> None:
        """
        Keep runs, each in place of what was kept of it before. Once this returns they are durable
        and were read back; killed before, each is kept as a whole or not at all.

        Raises:
            ArchiveUnfit: they can't be kept, or don't read back as they were handed in.
        """
        ...

    def load(self, run: str) -> ArchivedRun | None:
        """
        A run that was kept; None: none was.

        Raises:
            EventUnreadable: what was kept of it is damaged, or from a newer version.
        """
        ...

    def rows(self, projection: str, runs: Iterable[str]) -> dict[str, bytes]:
        """
        The rows of those of `runs` that were kept with one: what they were folded to then. A short
        cut: a run may be kept whose row is not to be had.
        """
        ...
