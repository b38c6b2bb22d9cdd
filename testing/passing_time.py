"""
Time that passes on a server without anybody waiting for it.
"""

from __future__ import annotations

from typing import Any, cast

from redis import Redis

from mulligan.events.keys import Keys


def pass_time(client: Redis, ms: int, *, partitions: int = 1) -> None:
    """
    Let leases, timers and resends come `ms` milliseconds nearer.

    The server's clock is its own, so every due moment is moved towards it; to whoever claims,
    sweeps or renews, that is the same.
    """
    for partition in range(partitions):
        due = Keys(partition).due
        tasks = cast("list[bytes]", client.zrange(due, 0, -1))
        with client.pipeline(transaction=False) as together:
            for task in tasks:
                cast(Any, together).zincrby(due, -ms, task)
            together.execute()
