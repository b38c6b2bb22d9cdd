"""
What a power loss, or the loss of a server, may take of what it has acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Literal

import msgspec

from mulligan.events.redis_connection import Server, refuses

Loss = Literal["nothing", "seconds", "unbounded", "unknown"]
"""
Of acknowledged events: none; those of the last one or two seconds; all since the last snapshot, or
since the machine last wrote its memory to disk; nobody can tell, since the server hides how it is
set.
"""

PROBE_KEY = "mulligan:durability-probe"
ROUNDS = 3
HONEST_S = 1.5
"""
How long `ROUNDS` of a write and a WAITAOF must take together under `appendfsync everysec`. A server
that really waits takes a second for each but the first. One that lies takes milliseconds, and by
chance waits in one of them (Valkey 9.1.2 came back before any fdatasync in 14 of 15 calls).
"""
ROUND_TIMEOUT_MS = 3_000
SYNCS_LATER = ("everysec", None)
"""Settings (None: hidden) under which WAITAOF may have something to wait for that comes."""


class Durability(msgspec.Struct, frozen=True, kw_only=True):
    """
    `power_loss`: what one may take. `waitaof`: whether a WAITAOF really waits for the disk, by what
    was `seen`; None where there is none, it was not asked, or need not be. `replicas`: how many
    follow; a failover to one may lose what it had not got yet, however well the primary keeps it.
    """

    power_loss: Loss
    detail: str
    advice: str | None = None
    waitaof: bool | None = None
    seen: str | None = None
    replicas: int = 0

    @property
    def told(self) -> str:
        """What may be lost, in a line."""
        follow = "a replica follows" if self.replicas == 1 else f"{self.replicas} replicas follow"
        lost = f"; {follow}: a failover may lose acknowledged events" if self.replicas else ""
        return self.detail + lost


def durability_of(server: Server, *, probe: bool = False) -> Durability:
    """
    What `server` promises by its settings. With `probe`, where it syncs every second or does not
    say, it is also seen whether WAITAOF really waits: by a few writes of a key of a minute's life,
    in a few seconds.
    """
    info: dict[str, Any] = server.info()
    found = _of_settings(server, info)
    replicas = int(info.get("connected_slaves", 0)) if info.get("role") == "master" else 0
    found = msgspec.structs.replace(found, replicas=replicas)
    if not (probe and info.get("aof_enabled") and setting(server, "appendfsync") in SYNCS_LATER):
        return found
    waits, seen = _probed(server)
    return msgspec.structs.replace(found, waitaof=waits, seen=seen)


def _of_settings(server: Server, info: dict[str, Any]) -> Durability:
    always = "appendfsync always keeps every acknowledged event"
    if not info.get("aof_enabled"):
        return Durability(
            power_loss="unbounded",
            detail="no append-only file: a restart of the server, or a power loss, loses what its "
            "last snapshot lacks",
            advice=f"set appendonly yes; {always}",
        )
    match setting(server, "appendfsync"):
        case "always" if setting(server, "no-appendfsync-on-rewrite") == "yes":
            return Durability(
                power_loss="seconds",
                detail="appendfsync always, but no-appendfsync-on-rewrite yes: a power loss while "
                "the append-only file is written anew may take acknowledged events",
                advice="set no-appendfsync-on-rewrite no",
            )
        case "always":
            return Durability(
                power_loss="nothing",
                detail="appendfsync always: every acknowledged event survives a power loss",
            )
        case "everysec":
            return Durability(
                power_loss="seconds",
                detail="appendfsync everysec: a power loss may take the acknowledged events of the "
                "last one or two seconds",
                advice=always,
            )
        case "no":
            return Durability(
                power_loss="unbounded",
                detail="appendfsync no: a power loss may take all that the machine has not written "
                "to disk by itself yet, half a minute and more",
                advice=always,
            )
    return Durability(
        power_loss="unknown",
        detail="there is an append-only file, and the server does not say when it is synced: a "
        "power loss may take acknowledged events",
        advice="ask whoever runs it for appendfsync",
    )


def _probed(server: Server) -> tuple[bool | None, str]:
    """Whether WAITAOF waits for the disk, and how that was seen."""
    began_s = monotonic()
    try:
        synced = all([sync(server, ROUND_TIMEOUT_MS) for _ in range(ROUNDS)])
    except Exception as error:
        if not refuses(error):
            raise
        return None, "it has no WAITAOF, or does not let us use it"
    took_s = monotonic() - began_s
    seen = f"{ROUNDS} rounds took {took_s:.3f} s"
    if not synced:
        return False, f"its WAITAOF does not come to an end ({seen})"
    if took_s < HONEST_S:
        return False, f"its WAITAOF comes back without waiting for the disk ({seen})"
    return True, f"its WAITAOF waits for the disk ({seen})"


def sync(server: Server, timeout_ms: int) -> bool:
    """
    Have the server sync all that it has taken until now; whether it says that it has. WAITAOF is
    about the writes of its own connection, so one is made first, and it is seen to be the same:
    `server` is to be used by this thread alone meanwhile.
    """
    send: Callable[..., Any] = server.execute_command
    before = send("CLIENT", "ID")
    send("SET", PROBE_KEY, "", "PX", 60_000)
    synced = send("WAITAOF", 1, 0, timeout_ms)
    return int(synced[0]) >= 1 and send("CLIENT", "ID") == before


def setting(server: Server, name: str) -> str | None:
    """A setting of the server's; None: it hides them, as hosted ones do."""
    try:
        value = server.config_get(name).get(name)
    except Exception as error:
        if not refuses(error):
            raise
        return None
    return str(value) if value is not None else None
