"""
Live output over a server's sharded pub/sub (Redis 7, Valkey): a channel for each run, in the slot
of the run's keys, so that it stays on one server of a cluster too. Pub/sub keeps nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, cast

import msgspec
from redis import Redis
from redis.client import PubSub
from redis.cluster import RedisCluster
from redis.exceptions import ConnectionError as ConnectionBroken

from mulligan.errors import EventUnreadable, StoreUnavailable
from mulligan.events.deltas import Delta
from mulligan.events.keys import Keys, partition_of
from mulligan.events.redis_connection import (
    CONNECT_TIMEOUT_S,
    answers,
    connect,
    disconnect_idle,
    place_of,
)
from mulligan.events.vault import Vault

PUBLISH_TIMEOUT_S = 2.0
"""Live output is not worth a longer wait for a server that is silent, be it a busy one."""

REST_TIMEOUT_S = 10.0
"""How long the rest of a message may take whose beginning is here."""


class RedisDeltas:
    """
    The `Deltas` of all processes at one server, or cluster.

    Args:
        server: a URL as for `RedisEventStore`, or a client of your own, which stays open.
        partitions: gives the number of partitions of the server's log.
        vault: what encrypts and decrypts the log's contents, and live output with them.
    """

    def __init__(
        self, server: str | Redis, partitions: Callable[[], int], vault: Vault | None = None
    ) -> None:
        self._vault = vault
        self._owns_client = isinstance(server, str)
        self._client = (
            connect(server, answer_timeout_s=PUBLISH_TIMEOUT_S)
            if isinstance(server, str)
            else server
        )
        self._place = place_of(self._client)
        self._partitions = partitions

    def publish(self, delta: Delta) -> None:
        """See `Deltas.publish`."""
        channel = self._channel(delta.run)
        data = msgspec.json.encode(delta)
        if self._vault is not None:
            data = self._vault.sealed(delta.run, data, "delta")
        with answers(self._place):
            server: Any = self._server_of(channel)
            server.execute_command("SPUBLISH", channel, data)

    def listened(self, runs: Iterable[str]) -> set[str]:
        """See `Deltas.listened`."""
        found: set[str] = set()
        with answers(self._place):
            for server, by_channel in self._by_server(runs):
                reply: Any = server.execute_command("PUBSUB SHARDNUMSUB", *by_channel)
                counts = zip(by_channel.values(), _counts(reply), strict=True)
                found |= {run for run, count in counts if count}
        return found

    def subscribe(self, run: str) -> RedisSubscription:
        """See `Deltas.subscribe`."""
        channel = self._channel(run)
        opened = partial(self._opened, run)
        with answers(self._place):
            return RedisSubscription(self._server_of(channel), channel, self._place, opened)

    def _opened(self, run: str, data: bytes) -> bytes:
        """What was published of a run; nothing, where the key to it is not here."""
        try:
            return self._vault.opened(run, data, "delta") if self._vault is not None else data
        except EventUnreadable:
            return b""

    def close(self) -> None:
        """See `Deltas.close`."""
        if self._owns_client:
            disconnect_idle(self._client)

    def _channel(self, run: str) -> str:
        return Keys(partition_of(run, self._partitions())).deltas(run)

    def _server_of(self, channel: str) -> Redis:
        if not isinstance(self._client, RedisCluster):
            return self._client
        node = self._client.get_node_from_key(channel)
        return cast(Redis, self._client.get_redis_connection(node))

    def _by_server(self, runs: Iterable[str]) -> list[tuple[Any, dict[str, str]]]:
        """The servers of some runs, each with its runs by channel."""
        servers: dict[int, Any] = {}
        channels: defaultdict[int, dict[str, str]] = defaultdict(dict)
        for run in runs:
            channel = self._channel(run)
            server = self._server_of(channel)
            servers[id(server)] = server
            channels[id(server)][channel] = run
        return [(servers[key], by_channel) for key, by_channel in channels.items()]


class RedisSubscription:
    """A reader on a connection of its own."""

    def __init__(
        self, server: Any, channel: str, place: str, opened: Callable[[bytes], bytes]
    ) -> None:
        self._place = place
        self._opened = opened
        self._pubsub: PubSub = server.pubsub()
        self._pubsub.ssubscribe(channel)
        # Only once the server has confirmed it does it count as listening.
        if self._next(CONNECT_TIMEOUT_S, "ssubscribe") is None:
            raise StoreUnavailable(f"the server at {place} did not let us listen in time")

    def heard(self, wait_ms: int) -> list[Delta]:
        """See `Subscription.heard`."""
        found: list[Delta] = []
        timeout_s = wait_ms / 1000
        with answers(self._place):
            while (data := self._next(timeout_s, "smessage")) is not None:
                found += _decoded(self._opened(data))
                timeout_s = 0.0
        return found

    def close(self) -> None:
        """See `Subscription.close`."""
        self._pubsub.close()

    def _next(self, timeout_s: float, kind: str) -> Any:
        """The data of the next message, if it begins in time and is of this kind."""
        if not self._begins(timeout_s):
            return None
        message = self._pubsub.get_message(timeout=REST_TIMEOUT_S)
        return message["data"] if message is not None and message["type"] == kind else None

    def _begins(self, timeout_s: float) -> bool:
        # The client allows the rest of a message no longer than its beginning: nothing, at 0.
        try:
            connection: Any = self._pubsub.connection
            return bool(connection.can_read(timeout=timeout_s))
        except ConnectionBroken:
            return True  # the next read connects and subscribes again


def _decoded(data: bytes) -> list[Delta]:
    """A delta; nothing, where a publisher of another version has another idea of one."""
    try:
        return [msgspec.json.decode(data, type=Delta)]
    except msgspec.DecodeError:
        return []


def _counts(reply: Any) -> list[int]:
    """The numbers in a reply of channels and numbers, be they in pairs or one after another."""
    pairs = (one if isinstance(one, tuple | list) else (one,) for one in reply)
    return [int(part) for part in list(chain.from_iterable(pairs))[1::2]]
