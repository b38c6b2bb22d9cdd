"""
Time that passes on a server without anybody waiting for it.
"""

from __future__ import annotations

from typing import Any, cast

from redis import Redis

from mulligan.events.keys import Keys, SlotKeys, lanes_key, workers_keys

_MOMENTS = (b"next", b"paused", b"tokens")
"""What of a lane's meter is a time."""


def pass_time(client: Redis, ms: int, *, partitions: int = 1) -> None:
    """
    Let leases, timers, resends, slots, and the end of sealed candidates, idle workers and
    projections come `ms` milliseconds nearer.

    The server's clock is its own, so every due moment is moved towards it; to whoever claims,
    sweeps or renews, that is the same.
    """
    alive, _ = workers_keys()
    for key in (alive, *(Keys(partition).due for partition in range(partitions))):
        _bring_nearer(client, key, ms)
    for sealed in client.scan_iter(match=Keys(0).sealed("*").replace("{0}", "*")):
        client.pexpire(sealed, client.pttl(sealed) - ms)
    for partition in range(partitions):
        _age(client, Keys(partition).followers, ms)
    for lane in cast("list[bytes]", client.zrange(lanes_key(), 0, -1)):
        _pass_in_lane(client, SlotKeys(lane.decode()), ms)


def _bring_nearer(client: Redis, key: str, ms: int) -> None:
    entries = cast("list[bytes]", client.zrange(key, 0, -1))
    with client.pipeline(transaction=False) as together:
        for entry in entries:
            cast(Any, together).zincrby(key, -ms, entry)
        together.execute()


def _pass_in_lane(client: Redis, keys: SlotKeys, ms: int) -> None:
    for key in (keys.held, keys.called):
        _bring_nearer(client, key, ms)
    for field, at in cast("dict[bytes, bytes]", client.hgetall(keys.meter)).items():
        if field in _MOMENTS:
            client.hset(keys.meter, field.decode(), float(at) - ms)


def _age(client: Redis, followers: str, ms: int) -> None:
    """As if projections had last been here so much earlier."""
    for projection, text in cast("dict[bytes, bytes]", client.hgetall(followers)).items():
        seen, _, checkpoint = text.partition(b"|")
        client.hset(followers, projection.decode(), b"%d|%b" % (int(seen) - ms, checkpoint))
