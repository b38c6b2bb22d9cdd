"""
Whether a server is set up for a log, and whether it has room for new work.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from mulligan.errors import StoreFull, StoreUnfit
from mulligan.events.redis_connection import Server, refuses, servers_of
from mulligan.events.redis_durability import durability_of

OLDEST_VERSION = (7, 0)
"""The first whose scripts can say `#!lua flags=`."""

ROOM_FOR_NEW_WORK = 0.9
"""Share of maxmemory above which no run and no intent is begun; the rest is for outcomes."""

LOOK_EVERY_S = 1.0
"""One INFO a second and process: cheap, and a second's new work is small beside the tenth left."""


def check_server(client: Server, place: str) -> list[str]:
    """
    Return what a person should know about the server at `place`, a sentence each.

    Raises:
        StoreUnfit: it evicts keys, or is too old.
    """
    found: dict[str, None] = {}
    for server in servers_of(client):
        info: dict[str, Any] = server.info()
        _check_version(str(info.get("redis_version", "0")), place)
        _check_policy(str(info.get("maxmemory_policy", "noeviction")), place)
        durability = durability_of(server)
        if durability.power_loss != "nothing" or durability.replicas:
            found[durability.told] = None
        found |= dict.fromkeys(warnings_of(info))
    return list(found)


def _check_version(version: str, place: str) -> None:
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < OLDEST_VERSION:
        raise StoreUnfit(
            f"the server at {place} speaks Redis {version}; "
            "mulligan needs Redis 7.0 or newer, or Valkey"
        )


def _check_policy(policy: str, place: str) -> None:
    if policy != "noeviction":
        raise StoreUnfit(
            f"the server at {place} evicts keys when its memory is full "
            f"(maxmemory-policy {policy}), so runs would vanish from the log; "
            "set: CONFIG SET maxmemory-policy noeviction, and in the server's configuration file"
        )


def warnings_of(info: dict[str, Any]) -> list[str]:
    """What a person should know besides of what may be lost, a sentence each."""
    found = []
    if info.get("aof_last_write_status", "ok") != "ok":
        found.append("the append-only file could not be written last time: look at the disk")
    if not info.get("maxmemory"):
        found.append("no maxmemory: a full machine ends the server instead of refusing new work")
    if info.get("role") != "master":
        found.append("this is a replica: it takes no appends; name the primary")
    return found


class Room:
    """Whether there is memory for new runs and intents, looked up once a second at most."""

    def __init__(self, client: Server, place: str) -> None:
        self._client = client
        self._place = place
        self._looked_at_s: float | None = None
        self._used_share = 0.0

    def require(self) -> None:
        """
        Go on only if there is room.

        Raises:
            StoreFull: more than `ROOM_FOR_NEW_WORK` of maxmemory is used.
        """
        if self._looked_at_s is None or monotonic() - self._looked_at_s >= LOOK_EVERY_S:
            self._used_share = self._look()
            self._looked_at_s = monotonic()
        if self._used_share > ROOM_FOR_NEW_WORK:
            raise StoreFull(
                f"the server at {self._place} uses {self._used_share:.0%} of its maxmemory; "
                "above 90 % no run or request is begun, so that what is under way can end: "
                "raise maxmemory, or move the log to a larger server"
            )

    def _look(self) -> float:
        return max(map(self._share, servers_of(self._client)), default=0.0)

    def _share(self, server: Server) -> float:
        try:
            memory: dict[str, Any] = server.info("memory")
        except Exception as error:
            if not refuses(error):
                raise
            return 0.0  # a server that hides INFO still refuses by itself when it is full
        limit = memory.get("maxmemory") or 0
        return float(memory.get("used_memory", 0)) / limit if limit else 0.0
