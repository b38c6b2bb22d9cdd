"""
How the log reaches its server, and what its silence and its refusals mean to us.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from mulligan.errors import MulliganError, StoreFull, StoreUnavailable, StoreUnfit
from mulligan.events.wire_client import WireClient
from mulligan.wire import AnswerLate, ConnectionFailed, ServerRefused, WireError
from mulligan.wire_address import address_of

if TYPE_CHECKING:
    from redis import Redis

ANSWER_TIMEOUT_S = 5.0
"""A server that is silent for half a lease (10 s) is of no use to the lease's holder."""

CONNECT_TIMEOUT_S = 2.0

CLUSTER_SCHEMES = ("redis+cluster", "rediss+cluster")

Server: TypeAlias = "Redis | WireClient"
"""What carries the log's commands. redis-py is loaded only where it is needed."""

_PASSING = {
    "LOADING", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS",
    "UNBLOCKED",
}  # fmt: skip
_REFUSED = {"NOAUTH", "WRONGPASS", "NOPERM", "DENIED"}
_MOVED = {"MOVED", "ASK", "CROSSSLOT"}


def connected(url: str) -> Server:
    """
    What carries the log's commands to the server at a URL; nothing is sent before the first. See
    `connect` for URLs and errors.
    """
    try:
        address = address_of(url)
    except ValueError as error:
        raise _not_a_url(error) from None
    if address is None:
        return connect(url)
    return WireClient(
        address, connect_timeout_s=CONNECT_TIMEOUT_S, answer_timeout_s=ANSWER_TIMEOUT_S
    )


def connect(url: str, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> Redis:
    """
    Return a client of redis-py for `redis://`, `rediss://` or `unix:///path?db=0`; for
    `redis+cluster://` (or `rediss+cluster://`) with the address of any node, one that finds the
    others.

    It repeats nothing by itself: an append whose reply was lost is repeated by whoever minted its
    operation, and by nobody else.

    Raises:
        StoreUnfit: not such a URL.
        StoreUnavailable: no node of the cluster answers.
    """
    from mulligan.events import redis_py

    try:
        with answers("the cluster"):
            return redis_py.made(
                url, connect_timeout_s=CONNECT_TIMEOUT_S, answer_timeout_s=answer_timeout_s
            )
    except ValueError as error:
        raise _not_a_url(error) from None


def _not_a_url(error: ValueError) -> StoreUnfit:
    return StoreUnfit(f"not a server's URL ({error}); use redis://host:6379/0 or unix:///path?db=0")


def is_cluster_url(url: str) -> bool:
    """Whether a URL names a Redis Cluster."""
    return url.partition("://")[0] in CLUSTER_SCHEMES


def servers_of(client: Server) -> list[Server]:
    """A client of each server that takes appends: itself, or one for each of a cluster's."""
    if isinstance(client, WireClient):
        return [client]
    from mulligan.events import redis_py

    return [*redis_py.servers_of(client)]


def answer_timeout_s_of(client: Server) -> float | None:
    """How long a client waits for an answer; None: for ever."""
    if isinstance(client, WireClient):
        return client.answer_timeout_s
    from mulligan.events import redis_py

    return redis_py.settings_of(client).get("socket_timeout")


def disconnect_idle(client: Server) -> None:
    """
    Let go of connections that nobody uses. Not of the others: a socket closed under a reader fails
    in ways that no one can name.
    """
    for server in servers_of(client):
        if isinstance(server, WireClient):
            server.close()
        else:
            server.connection_pool.disconnect(inuse_connections=False)


def check_client(client: Server) -> None:
    """
    Refuse a client that would garble events.

    Raises:
        StoreUnfit: it decodes what it reads.
    """
    if isinstance(client, WireClient):
        return
    from mulligan.events import redis_py

    if redis_py.settings_of(client).get("decode_responses"):
        raise StoreUnfit("the Redis client decodes responses; events are bytes: leave that off")


def place_of(client: Server) -> str:
    """Where the server is, without credentials."""
    if isinstance(client, WireClient):
        return client.address.place
    from mulligan.events import redis_py

    return redis_py.place_of(client)


def wire_error(error: Exception) -> WireError | None:
    """The error of a command, whichever client sent it; None: it is something else."""
    if isinstance(error, WireError):
        return error
    # Who has such an error has loaded redis-py: nobody else pays for it here.
    if type(error).__module__.partition(".")[0] != "redis":
        return None
    from mulligan.events import redis_py

    return redis_py.as_wire(error)


def refuses(error: Exception) -> bool:
    """Whether an error is the answer of a server that will not do, or say, what was asked."""
    return isinstance(wire_error(error), ServerRefused)


class answers:
    """
    Tell the client's errors as ours. A class: each command of each step passes here, and a
    generator takes three times as long.

    Raises:
        StoreUnavailable: no answer, or one that says not now.
        StoreFull: the server has no memory for this.
        StoreUnfit: it won't have us.
    """

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception):
            return
        known = wire_error(error)
        ours = None if known is None else _as_ours(self._place, known)
        if ours is not None:
            raise ours from error


def _as_ours(place: str, error: WireError) -> MulliganError | None:
    match error:
        case ServerRefused():
            return _refusal(place, error)
        case AnswerLate():
            return StoreUnavailable(
                f"the server at {place} did not answer in time; it may have done what was asked"
            )
        case ConnectionFailed():
            return StoreUnavailable(f"no connection to the server at {place}: {error}")
        case _:
            return None


def _refusal(place: str, error: ServerRefused) -> MulliganError | None:
    match error.code:
        case "OOM":
            return StoreFull(
                f"the server at {place} is out of memory (maxmemory); nothing was written: "
                "raise maxmemory, or move the log to a larger server"
            )
        case "READONLY":
            return StoreUnavailable(
                f"the server at {place} is a read-only replica, perhaps after a failover; "
                "name the primary"
            )
        case code if code in _REFUSED or (code == "ERR" and "AUTH" in str(error)):
            return StoreUnfit(f"the server at {place} refuses our user or password: {error}")
        case "ERR" if "DB index" in str(error) or "SELECT" in str(error):
            return StoreUnfit(f"the server at {place} has no such database: {error}")
        case "ERR" if "max number of clients" in str(error):
            return StoreUnavailable(f"the server at {place} has no connection to spare: {error}")
        case code if code in _MOVED:
            return StoreUnfit(
                f"the server at {place} is a node of a cluster; name it as redis+cluster://…"
            )
        case code if code in _PASSING:
            return StoreUnavailable(f"the server at {place} can't take this now: {error}")
        case _:
            return None
