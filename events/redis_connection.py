"""
How the log reaches its server, and what its silence and its refusals mean to us.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - the client's own
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - the client's own
)
from redis.retry import Retry

from mulligan.errors import MulliganError, StoreFull, StoreUnavailable, StoreUnfit

ANSWER_TIMEOUT_S = 5.0
"""A server that is silent for half a lease (10 s) is of no use to the lease's holder."""

CONNECT_TIMEOUT_S = 2.0

_PASSING = ("LOADING", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY ", "NOREPLICAS")


CLUSTER_SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""Schemes of a Redis Cluster's address, and what its client calls them."""


def connect(url: str, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> Redis:
    """
    Return a client for `redis://`, `rediss://` or `unix:///path?db=0`; for `redis+cluster://` (or
    `rediss+cluster://`) with the address of any node, one that finds the others.

    It repeats nothing by itself: an append whose reply was lost is repeated by whoever minted its
    operation, and by nobody else. (A cluster's client asks once more where a slot has moved; the
    script knows the operation.)

    Raises:
        StoreUnfit: not such a URL.
        StoreUnavailable: no node of the cluster answers.
    """
    scheme, separator, rest = url.partition("://")
    try:
        if scheme in CLUSTER_SCHEMES:
            return _connect_cluster(f"{CLUSTER_SCHEMES[scheme]}{separator}{rest}", answer_timeout_s)
        return Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=answer_timeout_s,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
        )
    except ValueError as error:
        raise StoreUnfit(
            f"not a server's URL ({error}); use redis://host:6379/0 or unix:///path?db=0"
        ) from None


def _connect_cluster(url: str, answer_timeout_s: float) -> Redis:
    with answers("the cluster"):
        client: RedisCluster = RedisCluster.from_url(
            url,
            retry=Retry(NoBackoff(), 1),
            socket_timeout=answer_timeout_s,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
        )
    return cast(Redis, client)  # it has the same commands


def is_cluster_url(url: str) -> bool:
    """Whether a URL names a Redis Cluster."""
    return url.partition("://")[0] in CLUSTER_SCHEMES


def servers_of(client: Redis) -> list[Redis]:
    """A client of each server that takes appends: itself, or one for each of a cluster's."""
    if isinstance(client, RedisCluster):
        primaries: list[Any] = client.get_primaries()
        return [client.get_redis_connection(node) for node in primaries]
    return [client]


def connection_settings(client: Redis) -> Mapping[str, Any]:
    """What a client's connections are made with."""
    if isinstance(client, RedisCluster):
        settings: Mapping[str, Any] = client.get_connection_kwargs()
        return settings
    return client.connection_pool.connection_kwargs


def disconnect_idle(client: Redis) -> None:
    """
    Let go of connections that nobody uses. Not of the others: a socket closed under a reader fails
    in ways that no one can name.
    """
    for server in servers_of(client):
        server.connection_pool.disconnect(inuse_connections=False)


def check_client(client: Redis) -> None:
    """
    Refuse a client that would garble events.

    Raises:
        StoreUnfit: it decodes what it reads.
    """
    if connection_settings(client).get("decode_responses"):
        raise StoreUnfit("the Redis client decodes responses; events are bytes: leave that off")


def place_of(client: Redis) -> str:
    """Where the server is, without credentials."""
    if isinstance(client, RedisCluster):
        node = client.get_default_node()
        return f"cluster {node.host}:{node.port}"
    at = connection_settings(client)
    if at.get("path"):
        return f"unix:{at['path']}"
    return f"{at.get('host', 'localhost')}:{at.get('port', 6379)}"


@contextmanager
def answers(place: str) -> Iterator[None]:
    """
    Tell the client's errors as ours.

    Raises:
        StoreUnavailable: no answer, or one that says not now.
        StoreFull: the server has no memory for this.
        StoreUnfit: it won't have us.
    """
    try:
        yield
    except RedisClusterException as error:
        raise StoreUnavailable(f"{place}: no server for this now ({error})") from error
    except RedisError as error:
        ours = _as_ours(place, error)
        if ours is None:
            raise
        raise ours from error


def _as_ours(place: str, error: RedisError) -> MulliganError | None:
    match error:
        case OutOfMemoryError():
            return StoreFull(
                f"the server at {place} is out of memory (maxmemory); nothing was written: "
                "raise maxmemory, or move the log to a larger server"
            )
        case AuthenticationError() | NoPermissionError():
            return StoreUnfit(f"the server at {place} refuses our user or password: {error}")
        case ReadOnlyError():
            return StoreUnavailable(
                f"the server at {place} is a read-only replica, perhaps after a failover; "
                "name the primary"
            )
        case BusyLoadingError() | MasterDownError():
            return StoreUnavailable(f"the server at {place} is not ready yet: {error}")
        case TimeoutError():
            return StoreUnavailable(
                f"the server at {place} did not answer in time; it may have done what was asked"
            )
        case ConnectionError():
            return StoreUnavailable(f"no connection to the server at {place}: {error}")
        case ResponseError() if str(error).startswith(_PASSING):
            return StoreUnavailable(f"the server at {place} can't take this now: {error}")
        case _:
            return None
