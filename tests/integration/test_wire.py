"""The log's own connection, where a server hangs, ends, refuses, or is another one by now."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Queue

import hiredis
import pytest

from mulligan.errors import MulliganError, StoreFull, StoreUnavailable, StoreUnfit
from mulligan.events.redis_connection import answers, connected
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.wire_client import WireClient
from mulligan.testing.server import ValkeyServer
from mulligan.wire import AnswerLate, ServerRefused
from mulligan.wire_address import Address, address_of


def client_of(url: str, *, answer_timeout_s: float = 5.0) -> WireClient:
    address = address_of(url)
    assert address is not None
    return WireClient(address, connect_timeout_s=2.0, answer_timeout_s=answer_timeout_s)


class Scripted:
    """A server that gives each command the next of some replies; None ends the connection."""

    def __init__(self, folder: Path, replies: list[bytes | None]) -> None:
        self.address = Address(path=str(folder / "s"))
        self.heard: Queue[list[bytes]] = Queue()
        self._replies = iter(replies)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "s"))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            with peer:
                self._answer(peer)

    def _answer(self, peer: socket.socket) -> None:
        reader = hiredis.Reader()
        while data := peer.recv(65_536):
            reader.feed(data)
            while (command := reader.gets()) is not False:
                self.heard.put(command)
                if (reply := next(self._replies)) is None:
                    return
                peer.sendall(reply)


@contextmanager
def scripted(folder: Path, *replies: bytes | None) -> Iterator[tuple[WireClient, Scripted]]:
    with (
        closing(Scripted(folder, list(replies))) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=2)) as client,
    ):
        yield client, server


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (b"-OOM command not allowed\r\n", StoreFull, "out of memory"),
        (b"-READONLY You can't write\r\n", StoreUnavailable, "read-only replica"),
        (b"-LOADING the dataset\r\n", StoreUnavailable, "can't take this now"),
        (b"-BUSY a script runs\r\n", StoreUnavailable, "can't take this now"),
        (b"-MASTERDOWN link\r\n", StoreUnavailable, "can't take this now"),
        (b"-MOVED 1 127.0.0.1:1\r\n", StoreUnfit, r"redis\+cluster"),
        (b"-NOAUTH Authentication required.\r\n", StoreUnfit, "user or password"),
        (b"-NOPERM no permissions\r\n", StoreUnfit, "user or password"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StoreUnavailable, "no Redis server"),
        (None, StoreUnavailable, "closed the connection"),
    ],
)
def test_each_refusal_says_what_it_means(
    tmp_path: Path, reply: bytes | None, error: type[MulliganError], told: str
) -> None:
    with (
        scripted(tmp_path, reply) as (client, _),
        pytest.raises(error, match=told),
        answers("here"),
    ):
        client.get("key")


def test_a_refused_command_leaves_the_connection_as_it_was(tmp_path: Path) -> None:
    with scripted(tmp_path, b"-ERR no\r\n", b"$1\r\na\r\n") as (client, _):
        with pytest.raises(ServerRefused, match="ERR no"):
            client.get("key")

        assert b"a" == client.get("key")


def test_an_unknown_script_is_sent_whole(store: RedisEventStore, server: ValkeyServer) -> None:
    assert isinstance(store._client, WireClient)
    with server.client() as client:
        client.script_flush()

    assert {} == store.workers()


# --- Connections ---------------------------------------------------------------------------------


@pytest.mark.server
def test_after_a_restart_the_next_command_has_a_new_connection() -> None:
    """What ended while nobody used it is noticed before anything is sent over it."""
    with ValkeyServer() as server, closing(client_of(server.url)) as client:
        client.set("key", "before")
        server.restart()

        assert client.set("key", "after")
        assert b"after" == client.get("key")


@pytest.mark.server
def test_a_late_reply_is_nobody_elses() -> None:
    with ValkeyServer() as server, closing(client_of(server.url, answer_timeout_s=0.1)) as client:
        client.set("first", "1")
        client.set("second", "2")
        server.pause()
        with pytest.raises(AnswerLate):
            client.get("first")
        server.resume()

        assert b"2" == client.get("second")


@pytest.mark.server
def test_threads_have_connections_of_their_own(server: ValkeyServer) -> None:
    wrong: list[object] = []
    with closing(client_of(server.url)) as client:

        def work(number: int) -> None:
            for turn in range(200):
                client.set(f"t{number}", f"{number}.{turn}")
                if (found := client.get(f"t{number}")) != f"{number}.{turn}".encode():
                    wrong.append(found)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [] == wrong


@pytest.mark.server
def test_a_forked_child_makes_its_own(server: ValkeyServer) -> None:
    """Two processes on one socket would take each other's replies."""
    with closing(client_of(server.url)) as client:
        ours = client.execute_command("CLIENT", "ID")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(client.execute_command("CLIENT", "ID")).encode())
            os._exit(0)
        os.waitpid(child, 0)
        theirs = int(os.read(reading, 20))
        os.close(reading)
        os.close(writing)

        assert theirs != ours == client.execute_command("CLIENT", "ID")


# --- Who we are, and how -------------------------------------------------------------------------


@pytest.mark.server
def test_user_password_and_database_are_those_of_the_url() -> None:
    with ValkeyServer() as server:
        with server.client() as admin:
            admin.config_set("requirepass", "open sesame")
        place = server.url.partition("?")[0].removeprefix("unix://")
        told = f"unix://default:open%20sesame@{place}?db=3"
        with closing(client_of(told)) as client:
            client.set("key", "value")
            assert b"db=3 " in client.execute_command("CLIENT", "INFO")
        for url in (f"unix://{place}", f"unix://:canary@{place}"):
            store = RedisEventStore(url)
            with pytest.raises(StoreUnfit, match="user or password") as refused:
                store.row("r1")
            assert "canary" not in str(refused.value)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "unix:///nowhere/socket"])
def test_no_server_is_told_as_such(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="no connection"):
        RedisEventStore(url).row("r1")


def test_a_server_without_tls_is_no_server_for_rediss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def wrap(
        self: ssl.SSLContext, plain: socket.socket, server_hostname: str | None = None
    ) -> None:
        asked.append(server_hostname)
        assert (True, ssl.CERT_REQUIRED) == (self.check_hostname, self.verify_mode)
        raise ssl.SSLError("no certificate")

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrap)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"rediss://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(StoreUnavailable, match="no connection"):
            RedisEventStore(url).row("r1")

    assert ["127.0.0.1"] == asked


def test_options_that_it_does_not_speak_lead_to_redis_py() -> None:
    assert not isinstance(connected("redis://host?health_check_interval=3"), WireClient)
    with pytest.raises(StoreUnfit, match="not a server's URL"):
        connected("redis://host?db=first")
