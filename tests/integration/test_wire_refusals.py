"""What a server refuses is told in the same words, whichever client the log runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mulligan.errors import MulliganError, StoreFull, StoreUnavailable, StoreUnfit
from mulligan.events.redis_connection import Server, answers, connect, connected
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.wire_client import WireClient
from mulligan.testing.cluster import ValkeyCluster
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.wire import AnswerLate, ServerRefused
from mulligan.wire_address import address_of
from tests.integration.scripted_server import AnsweringServer, in_turn

CLIENTS = {"ours": connected, "redis-py": connect}


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """The URL of a server that gives each command the next of some replies."""
    servers: list[AnsweringServer] = []

    def start(*replies: bytes | None) -> str:
        servers.append(AnsweringServer(tmp_path, in_turn(*replies)))
        return f"unix://{servers[-1].address.path}"

    yield start
    for server in servers:
        server.close()


def asked(client: Server, key: str) -> object:
    with closing(client), answers("here"):
        return client.get(key)


def answered(client: Server) -> bool:
    with suppress(ServerRefused):
        return bool(client.execute_command("PING"))
    return False


# --- Each by its code ----------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (b"-OOM command not allowed\r\n", StoreFull, "out of memory"),
        (b"-READONLY You can't write\r\n", StoreUnavailable, "read-only replica"),
        (b"-LOADING the dataset\r\n", StoreUnavailable, "can't take this now"),
        (b"-BUSY a script runs\r\n", StoreUnavailable, "can't take this now"),
        (b"-MISCONF can't persist\r\n", StoreUnavailable, "can't take this now"),
        (b"-MASTERDOWN link\r\n", StoreUnavailable, "can't take this now"),
        (b"-CLUSTERDOWN hash slot\r\n", StoreUnavailable, "can't take this now"),
        (b"-TRYAGAIN keys move\r\n", StoreUnavailable, "can't take this now"),
        (b"-NOREPLICAS too few\r\n", StoreUnavailable, "can't take this now"),
        (b"-UNBLOCKED role changed\r\n", StoreUnavailable, "can't take this now"),
        (b"-MOVED 1 127.0.0.1:1\r\n", StoreUnfit, r"redis\+cluster"),
        (b"-ASK 1 127.0.0.1:1\r\n", StoreUnfit, r"redis\+cluster"),
        (b"-CROSSSLOT keys\r\n", StoreUnfit, r"redis\+cluster"),
        (b"-NOAUTH Authentication required.\r\n", StoreUnfit, "user or password"),
        (b"-WRONGPASS invalid\r\n", StoreUnfit, "user or password"),
        (b"-NOPERM no permissions\r\n", StoreUnfit, "user or password"),
        (b"-DENIED protected mode\r\n", StoreUnfit, "protected mode"),
        (b"-ERR max number of clients reached\r\n", StoreUnavailable, "max number of clients"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StoreUnavailable, "no connection"),
        (None, StoreUnavailable, "no connection"),
    ],
)
def test_each_refusal_says_what_it_means(
    refusing: Callable[..., str],
    client: str,
    reply: bytes | None,
    error: type[MulliganError],
    told: str,
) -> None:
    with pytest.raises(error, match=told):
        asked(CLIENTS[client](refusing(reply)), "key")


@pytest.mark.parametrize("reply", [b"-WRONGTYPE a list\r\n", b"-ERR no such thing\r\n", b"-\r\n"])
def test_what_has_no_name_is_no_server_s_state(refusing: Callable[..., str], reply: bytes) -> None:
    with pytest.raises(ServerRefused):
        asked(connected(refusing(reply)), "key")


def test_bytes_that_are_no_text_are_told_all_the_same(refusing: Callable[..., str]) -> None:
    with pytest.raises(StoreUnavailable, match="now: BUSY"):
        asked(connected(refusing(b"-BUSY \xff\xfe\r\n")), "key")


def test_what_a_server_quotes_of_a_command_is_not_told(refusing: Callable[..., str]) -> None:
    quoting = b"-ERR unknown command 'EVALSHA', with args beginning with: 'canary' \r\n"
    with pytest.raises(ServerRefused, match=r"unknown command 'EVALSHA'$") as refused:
        asked(connected(refusing(quoting)), "key")

    assert "canary" not in repr(refused.value)


# --- By real servers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[ValkeyServer]:
    """A server with a password, and a user who needs none and may do little."""
    with ValkeyServer() as server:
        with server.client() as admin:
            admin.execute_command("ACL SETUSER", "reader", "on", "nopass", "~{0}:*", "+get")
            admin.config_set("requirepass", "open sesame")
        yield server


def url_of(server: ValkeyServer, user: str, database: int = 0) -> str:
    return f"unix://{user}@{server.socket}?db={database}"


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_user_password_and_database_are_those_of_the_url(
    guarded: ValkeyServer, client: str
) -> None:
    with closing(CLIENTS[client](url_of(guarded, "default:open%20sesame", 3))) as ours:
        told = str(
            ours.execute_command("CLIENT", "LIST", "ID", ours.execute_command("CLIENT", "ID"))
        )

    assert "db=3" in told.replace("'db': '3'", "db=3")
    assert "user=default" in told.replace("'user': 'default'", "user=default")


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_a_user_without_a_password_is_a_user(guarded: ValkeyServer, client: str) -> None:
    assert asked(CLIENTS[client](url_of(guarded, "reader")), "{0}:r:none") is None
    with pytest.raises(StoreUnfit, match="user or password: NOPERM"):
        asked(CLIENTS[client](url_of(guarded, "reader")), "others")


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("user", ["", ":canary", "nobody:canary", "canary-nobody"])
def test_who_is_not_known_is_refused(guarded: ValkeyServer, client: str, user: str) -> None:
    with pytest.raises(StoreUnfit, match="user or password") as refused:
        asked(CLIENTS[client](url_of(guarded, user)), "key")

    assert "canary" not in str(refused.value)


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_no_such_database_is_told(server: ValkeyServer, client: str) -> None:
    with pytest.raises(StoreUnfit, match="no such database"):
        asked(CLIENTS[client](f"unix://{server.socket}?db=99"), "key")


def test_a_password_that_a_server_quotes_is_not_told(refusing: Callable[..., str]) -> None:
    quoting = b"-ERR unknown command 'AUTH', with args beginning with: 'user' 'canary' \r\n"
    url = refusing(quoting).replace("unix://", "unix://user:canary@")
    with pytest.raises(StoreUnfit, match="user or password") as refused:
        asked(connected(url), "key")

    assert "canary" not in str(refused.value)


@pytest.mark.server
def test_a_server_without_a_connection_to_spare_is_one_that_is_away() -> None:
    with ValkeyServer(maxclients="1") as server, closing(connected(server.url)) as first:
        until(lambda: answered(first))  # who saw the server start has hung up
        with pytest.raises(StoreUnavailable):  # it says so and hangs up, at times before we ask
            asked(connected(server.url), "key")


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_a_node_of_a_cluster_is_told_as_one(cluster: ValkeyCluster, client: str) -> None:
    refusals = []
    for server in cluster.servers:
        try:
            asked(CLIENTS[client](server.url), "key")
        except StoreUnfit as error:
            refusals.append("redis+cluster" in str(error))

    assert [True, True] == refusals, "one of the three has the key"


@pytest.mark.server
def test_a_server_in_an_endless_script_is_one_that_is_away() -> None:
    with ValkeyServer(busy_reply_threshold="10") as server:
        busy, other = wire_client(server.url, answer_timeout_s=0.2), connected(server.url)
        with closing(busy), closing(other):
            other.execute_command("PING")
            with pytest.raises(AnswerLate):
                busy.execute_command("EVAL", "while true do end", 0)
            with pytest.raises(StoreUnavailable, match="now: BUSY"), answers("here"):
                other.execute_command("GET", "key")
            other.execute_command("SCRIPT", "KILL")
            until(lambda: answered(other))


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1", "unix:///nowhere/socket", "unix:///a%00b", "redis://a..b"]
)
def test_no_server_is_told_as_such(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="no connection"):
        RedisEventStore(url).row("r1")


def test_options_that_it_does_not_speak_lead_to_redis_py() -> None:
    assert not isinstance(connected("redis://host?health_check_interval=3"), WireClient)
    with pytest.raises(StoreUnfit, match="not a server's URL"):
        connected("redis://host?db=first")


def wire_client(url: str, *, answer_timeout_s: float) -> WireClient:
    address = address_of(url)
    assert address is not None
    return WireClient(address, connect_timeout_s=2.0, answer_timeout_s=answer_timeout_s)
