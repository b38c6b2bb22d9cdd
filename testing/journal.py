"""
What a log's users were told: who claimed what, and which appends were acknowledged.

    journal = Journal()
    store = journaled(MemoryEventStore(clock), journal)
    ...
    assert check(store, journal=journal.entries()) == []

With a file, several processes share a journal, and it outlives those that are killed: a line is
written once the answer is there, so what it names was acknowledged.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, cast

import msgspec

from mulligan.events.store import (
    Append,
    Appended,
    AsNew,
    ByTask,
    Claimed,
    EventStore,
    NotClaimed,
)


class Acknowledged(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """
    An append that the log took: `events` of `op`, by a writer that waits for its answers (`by`), so
    that its appends follow one another. A task's has the task and the token it was held under. A
    request that was `known` is in the log under the operation of whoever asked for it first.
    """

    by: str
    run: str
    op: str
    events: int
    task: str = ""
    token: str = ""
    known: bool = False


class Taken(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """
    A task that was claimed under `token`, by somebody, or taken along by an append, when its run
    was at `version`, at the server's time.
    """

    task: str
    run: str
    token: str
    version: int
    now_ms: int
    by: str = ""


Entry = Acknowledged | Taken


class Journal:
    """Entries in the order in which their answers came. In memory, or in a file (see above)."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def note(self, entry: Entry) -> None:
        """One more; in a file it stands there whole when this returns."""
        if self._path is None:
            with self._lock:
                self._entries.append(entry)
            return
        line = msgspec.json.encode(entry) + b"\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)  # one call: lines of several processes don't mix
        finally:
            os.close(file)

    def entries(self) -> list[Entry]:
        """All of them so far; a last line that its writer was killed over is left out."""
        if self._path is None:
            with self._lock:
                return list(self._entries)
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Entry) for line in lines]

    def cut(self, entries: int) -> None:
        """
        Keep the first ones only: a server was set back, and what came later is known lost. Of a
        journal in memory; a file's is everybody's.
        """
        if self._path is not None:
            raise ValueError(f"{self._path}: a journal in a file is not cut")
        with self._lock:
            del self._entries[entries:]


def journaled(store: EventStore, journal: Journal, by: str = "") -> EventStore:
    """
    The same log, whose acknowledgements are noted. `by` tells its users from those of others; the
    threads of a process are told apart.
    """
    return cast(EventStore, _Journaled(store, journal, by))


class _Journaled:
    def __init__(self, store: EventStore, journal: Journal, by: str) -> None:
        self._store = store
        self._journal = journal
        self._by = by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Append) -> Appended:
        appended = self._store.append(append)
        writer = append.writer
        self._journal.note(
            Acknowledged(
                by=self._name(),
                run=append.run,
                op=append.op,
                events=len(append.events),
                task=writer.task if isinstance(writer, ByTask) else "",
                token=writer.token if isinstance(writer, ByTask) else "",
                known=isinstance(writer, AsNew) and appended.repeated,
            )
        )
        if appended.taken is not None:
            self._note_taken(append.run, appended.taken)
        return appended

    def claim(self, run: str, task: str, token: str, lease_ms: int) -> Claimed | NotClaimed:
        claimed = self._store.claim(run, task, token, lease_ms)
        if isinstance(claimed, Claimed):
            self._note_taken(run, claimed)
        return claimed

    def _note_taken(self, run: str, claimed: Claimed) -> None:
        self._journal.note(
            Taken(
                task=claimed.task,
                run=run,
                token=claimed.token,
                version=claimed.version,
                now_ms=claimed.now_ms,
                by=self._name(),
            )
        )

    def _name(self) -> str:
        return f"{self._by}{os.getpid()}.{threading.get_ident()}"
