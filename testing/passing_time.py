"""
Time that passes on a server without anybody waiting for it.
"""

from __future__ import annotations

from typing import Any, cast

from redis import Redis

from mulligan.events.keys import Keys, workers_keys


def pass_time(client: Redis, ms: int, *, partitions: int = 1) -> None:
    """
    Let leases, timers, resends, and the end of idle workers and projections come `ms` milliseconds
    nearer.

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
    for partition in range(partitions):
        _age(client, Keys(partition).followers, ms)


def _age(client: Redis, followers: str, ms: int) -> None:
    """As if projections had last been here so much earlier."""
    for projection, text in cast("dict[bytes, bytes]", client.hgetall(followers)).items():
        seen, _, checkpoint = text.partition(b"|")
        client.hset(followers, projection.decode(), b"%d|%b" % (int(seen) - ms, checkpoint))
