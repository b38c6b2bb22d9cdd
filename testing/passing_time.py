"""
Time that passes on a server without anybody waiting for it.
"""

from __future__ import annotations

from typing import Any, cast

from redis import Redis

from mulligan.events.keys import Keys, workers_keys


def pass_time(client: Redis, ms: int, *, partitions: int = 1) -> None:
    """
    Let leases, timers, resends and the lives of workers come `ms` milliseconds nearer.

    The server's clock is its own, so every due moment is moved towards it; to whoever claims,
    sweeps or renews, that is the same.
    """
    alive, _ = workers_keys()
    for key in (alive, *(Keys(partition).due for partition in range(partitions))):
        entries = cast("list[bytes]", client.zrange(key, 0, -1))
        with client.pipeline(transaction=False) as together:
            for entry in entries:
                cast(Any, together).zincrby(key, -ms, entry)
            together.execute()
