"""
How the log reaches its server, and what its silence and its refusals mean to us.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - the client's own
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
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


def connect(url: str) -> Redis:
    """
    Return a client for `redis://`, `rediss://` or `unix:///path?db=0`.

    It repeats nothing by itself: an append whose reply was lost is repeated by whoever minted its
    operation, and by nobody else.

    Raises:
        StoreUnfit: not such a URL.
    """
    try:
        return Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=ANSWER_TIMEOUT_S,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
        )
    except ValueError as error:
        raise StoreUnfit(
            f"not a server's URL ({error}); use redis://host:6379/0 or unix:///path?db=0"
        ) from None


def check_client(client: Redis) -> None:
    """
    Refuse a client that would garble events.

    Raises:
        StoreUnfit: it decodes what it reads.
    """
    if client.connection_pool.connection_kwargs.get("decode_responses"):
        raise StoreUnfit("the Redis client decodes responses; events are bytes: leave that off")


def place_of(client: Redis) -> str:
    """Where the server is, without credentials."""
    at = client.connection_pool.connection_kwargs
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
                "raise maxmemory, or archive ended runs"
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
