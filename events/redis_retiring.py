"""
Runs that leave a Redis server for an archive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from mulligan.events.archive import StoredEvent
from mulligan.events.codec import Outline, outlines_of
from mulligan.events.keys import Keys
from mulligan.events.redis_connection import answers
from mulligan.events.redis_scripts import Scripts
from mulligan.events.redis_streams import Streams
from mulligan.events.store import Retired, Retirement
from mulligan.events.vault import Vault


class RedisRetiring(ABC):
    """Part of `RedisEventStore`, which says how the server and a run's keys are found."""

    _place: str
    _scripts: Scripts
    _streams: Streams
    vault: Vault

    @abstractmethod
    def _keys(self, run: str) -> Keys: ...

    def stored(self, run: str) -> list[StoredEvent]:
        """See `EventStore.stored`."""
        entries = self._streams.entries(self._keys(run).run(run), "0-0", None)
        return [StoredEvent(int(fields[b"t"]), fields[b"d"]) for _, fields in entries]

    def outlines(self, run: str) -> list[Outline]:
        """See `EventStore.outlines`."""
        return outlines_of(self.stored(run))

    def retire(self, retired: Retired) -> Retirement:
        """See `EventStore.retire`."""
        run, keys = retired.run, self._keys(retired.run)
        rows = [keys.rows(name) for name in retired.projections]
        names = self.vault.names_of(run, retired.payloads)
        whole = [keys.snapshot(run), *(keys.payload(run, name) for name in names)]
        with answers(self._place):
            reply = self._scripts.call(
                "retire",
                [keys.runs, keys.run(run), keys.tasks, keys.due, keys.meta, *rows, *whole],
                [run, retired.version, retired.last_event, len(rows), *retired.tasks],
            )
        return cast(Retirement, reply.decode())
