"""
The log on a client of redis-py: for clusters, for addresses with options of its own, and for a
client that a program brings along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - the client's own
    InvalidResponse,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - the client's own
)
from redis.retry import Retry

from mulligan.wire import AnswerLate, ConnectionFailed, ServerRefused, WireError

CLUSTER_SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""Schemes of a Redis Cluster's address, and what its client calls them."""

_CODES: dict[type[RedisError], str] = {
    OutOfMemoryError: "OOM",
    AuthenticationError: "WRONGPASS",
    NoPermissionError: "NOPERM",
    ReadOnlyError: "READONLY",
    BusyLoadingError: "LOADING",
    MasterDownError: "MASTERDOWN",
    NoScriptError: "NOSCRIPT",
}
"""What some errors are called on the wire, where redis-py or an imitation raises them by itself."""


def made(url: str, *, connect_timeout_s: float, answer_timeout_s: float) -> Redis:
    """
    A client for a URL. It repeats nothing by itself, but for a cluster's, which asks once more
    where a slot has moved; the script knows the operation.

    Raises:
        ValueError: not such a URL.
    """
    timeouts: dict[str, Any] = {
        "socket_timeout": answer_timeout_s,
        "socket_connect_timeout": connect_timeout_s,
    }
    scheme, separator, rest = url.partition("://")
    if scheme in CLUSTER_SCHEMES:
        nodes_url = f"{CLUSTER_SCHEMES[scheme]}{separator}{rest}"
        cluster: RedisCluster = RedisCluster.from_url(
            nodes_url, retry=Retry(NoBackoff(), 1), **timeouts
        )
        return cast(Redis, cluster)  # it has the same commands
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0), **timeouts)


def servers_of(client: Redis) -> list[Redis]:
    """A client of each server that takes appends: itself, or one for each of a cluster's."""
    if isinstance(client, RedisCluster):
        primaries: list[Any] = client.get_primaries()
        return [client.get_redis_connection(node) for node in primaries]
    return [client]


def settings_of(client: Redis) -> Mapping[str, Any]:
    """What a client's connections are made with."""
    if isinstance(client, RedisCluster):
        settings: Mapping[str, Any] = client.get_connection_kwargs()
        return settings
    return client.connection_pool.connection_kwargs


def place_of(client: Redis) -> str:
    """Where the server is, without credentials."""
    if isinstance(client, RedisCluster):
        node = client.get_default_node()
        return f"cluster {node.host}:{node.port}"
    at = settings_of(client)
    if at.get("path"):
        return f"unix:{at['path']}"
    return f"{at.get('host', 'localhost')}:{at.get('port', 6379)}"


def as_wire(error: Exception) -> WireError | None:
    """An error of redis-py as one of ours; None for an error of use."""
    match error:
        case TimeoutError():
            return AnswerLate(str(error))
        case AuthenticationError() | BusyLoadingError() | MasterDownError() | ResponseError():
            return ServerRefused(" ".join(filter(None, (_code_of(error), str(error)))))
        case ConnectionError() | RedisClusterException() | InvalidResponse():
            return ConnectionFailed(str(error))
        case _:
            return None


def _code_of(error: RedisError) -> str | None:
    """The first word of an error reply, if redis-py took it off."""
    if error.status_code:
        return error.status_code
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
