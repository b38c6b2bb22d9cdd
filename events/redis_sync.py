"""
The log's server, told to sync what it has acknowledged before a write begins.
"""

from __future__ import annotations

from threading import Lock

from mulligan.errors import IntentsUnfit
from mulligan.events.redis_connection import answers, connected, place_of, servers_of
from mulligan.events.redis_durability import durability_of, sync

TIMEOUT_MS = 3_000
"""Of a WAITAOF: under `everysec` it takes a second, on a slow disk two."""


class LogSync:
    """
    Syncs a server whose WAITAOF really waits, and needs to do nothing where every reply says that
    what it answers is on disk.

    Raises:
        IntentsUnfit: the server at `url` can do neither; the message says what to do.
        StoreUnavailable: it gave no answer.
    """

    def __init__(self, url: str) -> None:
        self._lock = Lock()
        self._client = connected(url)
        self._place = place_of(self._client)
        with answers(self._place):
            servers = servers_of(self._client)
            found = [durability_of(server, probe=len(servers) == 1) for server in servers]
        self.needed = any(one.power_loss != "nothing" for one in found)
        weak = next((one for one in found if one.power_loss != "nothing"), None)
        if weak is not None and not (len(found) == 1 and weak.waitaof):
            self._client.close()
            seen = f" ({weak.seen})" if weak.seen else ""
            raise IntentsUnfit(
                f"MULLIGAN_WRITE_INTENTS=synced: the server at {self._place} can't promise that "
                f"the start of a write is on disk before the write begins: {weak.detail}{seen}; "
                "set appendonly yes and appendfsync always there, or unset MULLIGAN_WRITE_INTENTS"
            )

    def __call__(self) -> None:
        """
        Return once all that was acknowledged before is on disk.

        Raises:
            IntentsUnfit: it may not be.
            StoreUnavailable: no answer.
        """
        if not self.needed:
            return
        with self._lock, answers(self._place):
            synced = sync(self._client, TIMEOUT_MS)
        if not synced:
            raise IntentsUnfit(
                f"the server at {self._place} did not sync the start of a write in "
                f"{TIMEOUT_MS / 1_000:g} s: look at its disk"
            )

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()
