"""The log's own connection, where a server hangs or ends, or a person interrupts it."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.errors import StoreUnavailable
from mulligan.events import facts
from mulligan.events.envelope import NewEvent
from mulligan.events.payload import Payload
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, AsNew
from mulligan.events.wire_client import WireClient
from mulligan.testing.server import ValkeyServer
from mulligan.wire import TOGETHER, AnswerLate, ConnectionFailed, ServerRefused, Wire, WireError
from mulligan.wire_address import address_of
from tests.integration.scripted_server import Answer, AnsweringServer, Relay, in_turn

MAIN_THREAD = threading.main_thread().ident or 0


def client_of(url: str, *, answer_timeout_s: float = 5.0) -> WireClient:
    address = address_of(url)
    assert address is not None
    return WireClient(address, connect_timeout_s=2.0, answer_timeout_s=answer_timeout_s)


@contextmanager
def scripted(folder: Path, *replies: bytes | None) -> Iterator[WireClient]:
    """A client of a server that gives each command the next of some replies."""
    with (
        closing(AnsweringServer(folder, in_turn(*replies))) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=2)) as client,
    ):
        yield client


@pytest.fixture(scope="module", autouse=True)
def interruptible() -> Iterator[None]:
    """SIGUSR1 is to the main thread what Ctrl-C is, whatever becomes of SIGINT here."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    yield
    signal.signal(signal.SIGUSR1, before)


# --- No reply astray -----------------------------------------------------------------------------


def whole(peer: socket.socket, reply: bytes) -> bool:
    peer.sendall(reply)
    return True


def in_pieces(peer: socket.socket, reply: bytes) -> bool:
    for place in range(len(reply)):
        peer.sendall(reply[place : place + 1])
    return True


def cut(peer: socket.socket, reply: bytes) -> bool:
    peer.sendall(reply[:-3])
    return False


def ended(peer: socket.socket, reply: bytes) -> bool:
    return False


def doubled(peer: socket.socket, reply: bytes) -> bool:
    peer.sendall(reply + reply)
    return True


def refused(peer: socket.socket, reply: bytes) -> bool:
    peer.sendall(b"-ERR no\r\n")
    return True


def late(peer: socket.socket, reply: bytes) -> bool:
    """The rest comes once the client has given up; it would be the next command's reply."""
    peer.sendall(reply[:-3])
    if not peer.recv(1):  # the client hung up, as it must
        return False
    peer.sendall(reply[-3:])
    return True


def interrupted(peer: socket.socket, reply: bytes) -> bool:
    """Ctrl-C in the middle of a reply."""
    peer.sendall(reply[:-3])
    signal.pthread_kill(MAIN_THREAD, signal.SIGUSR1)
    if not peer.recv(1):
        return False
    peer.sendall(reply[-3:])
    return True


EXPECTED: dict[Callable[[socket.socket, bytes], bool], type[WireError] | None] = {
    whole: None,
    in_pieces: None,
    doubled: None,
    cut: ConnectionFailed,
    ended: ConnectionFailed,
    refused: ServerRefused,
    late: AnswerLate,
}


def echoed(client: WireClient, number: int) -> bytes | type[WireError]:
    """What a command came to."""
    try:
        reply: bytes = client.execute_command("ECHO", number)
    except WireError as failed:
        return type(failed)
    return reply


@given(st.lists(st.sampled_from(list(EXPECTED)), min_size=1, max_size=12))
@settings(max_examples=40)
def test_each_command_has_its_own_reply_or_none(
    tmp_path_factory: pytest.TempPathFactory,
    behaviours: list[Callable[[socket.socket, bytes], bool]],
) -> None:
    """Whatever went wrong before, and however the reply comes."""
    left = iter(behaviours)

    def answer(peer: socket.socket, command: list[bytes]) -> bool:
        return next(left)(peer, b"$%d\r\n%b\r\n" % (len(command[1]), command[1]))

    with (
        closing(AnsweringServer(tmp_path_factory.mktemp("s"), answer)) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=0.05)) as client,
    ):
        for number, behaviour in enumerate(behaviours):
            expected = EXPECTED[behaviour] or b"%d" % number
            # A busy machine makes anything late.
            assert echoed(client, number) in (expected, AnswerLate)


def test_who_is_interrupted_leaves_no_reply_for_the_next(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a reply, in a program that goes on."""
    behaviours = iter((whole, interrupted, whole))

    def answer(peer: socket.socket, command: list[bytes]) -> bool:
        return next(behaviours)(peer, b"$%d\r\n%b\r\n" % (len(command[1]), command[1]))

    with (
        closing(AnsweringServer(tmp_path, answer)) as server,
        closing(WireClient(server.address, connect_timeout_s=30, answer_timeout_s=30)) as client,
    ):
        assert b"a" == client.execute_command("ECHO", "a")
        with pytest.raises(KeyboardInterrupt):
            client.execute_command("ECHO", "b")

        assert b"c" == client.execute_command("ECHO", "c")


def test_a_connection_that_failed_can_not_be_used_again(tmp_path: Path) -> None:
    answer = in_turn(b"$5\r\nhal", b"+never\r\n")
    with closing(AnsweringServer(tmp_path, answer)) as server:
        wire = Wire(server.address, connect_timeout_s=2, answer_timeout_s=0.05)
        with pytest.raises(AnswerLate):
            wire.call("GET", "key")

        assert wire.closed
        with pytest.raises(ConnectionFailed):
            wire.call("GET", "key")


def test_a_command_that_can_not_be_sent_spoils_nothing(tmp_path: Path) -> None:
    with scripted(tmp_path, b"$1\r\na\r\n", b"$1\r\nb\r\n") as client:
        assert b"a" == client.get("key")
        with pytest.raises(UnicodeEncodeError):
            client.get("\ud800")
        with pytest.raises(TypeError):
            client.execute_command("GET", None)

        assert b"b" == client.get("key")


def test_a_refused_command_leaves_the_connection_as_it_was(tmp_path: Path) -> None:
    with scripted(tmp_path, b"-ERR no\r\n", b"$1\r\na\r\n") as client:
        with pytest.raises(ServerRefused, match="ERR no"):
            client.get("key")

        assert b"a" == client.get("key")


@pytest.mark.parametrize(("reply", "connections"), [(b"-ERR no\r\n", 1), (b"-READONLY r\r\n", 2)])
def test_a_replica_is_asked_once(tmp_path: Path, reply: bytes, connections: int) -> None:
    """After a failover all connections lead to it, and a new one may lead elsewhere."""
    with (
        closing(AnsweringServer(tmp_path, in_turn(b"+OK\r\n", reply, b"+OK\r\n"))) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=2)) as client,
    ):
        client.execute_command("SET", "key", "value")
        with pytest.raises(ServerRefused):
            client.execute_command("SET", "key", "value")
        client.execute_command("SET", "key", "value")

        assert connections == server.connections


def test_what_failed_takes_idle_connections_along(tmp_path: Path) -> None:
    """They were made to the same end: each would cost somebody a wait."""
    both = threading.Barrier(2, timeout=5)

    def answer(peer: socket.socket, command: list[bytes]) -> bool:
        if command[1] == b"together":
            both.wait()
        if command[1] == b"lost":
            return not peer.recv(1)
        peer.sendall(b"+OK\r\n")
        return True

    with (
        closing(AnsweringServer(tmp_path, answer)) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=0.1)) as client,
    ):
        other = threading.Thread(target=client.get, args=("together",))
        other.start()
        client.get("together")
        other.join()
        with pytest.raises(AnswerLate):
            client.get("lost")
        client.get("key")

        assert 3 == server.connections


# --- Commands one upon another -------------------------------------------------------------------


def echoing(peer: socket.socket, command: list[bytes]) -> bool:
    peer.sendall(b"$%d\r\n%b\r\n" % (len(command[1]), command[1]))
    return True


def failing(at: int, how: Callable[[socket.socket, bytes], bool]) -> Answer:
    """Echoes, but for the command of a number."""

    def answer(peer: socket.socket, command: list[bytes]) -> bool:
        if command[1] != b"%d" % at:
            return echoing(peer, command)
        return how(peer, b"$%d\r\n%b\r\n" % (len(command[1]), command[1]))

    return answer


def echoes(client: WireClient, count: int) -> Iterator[bytes]:
    return client.calls(("ECHO", number) for number in range(count))


@pytest.mark.parametrize("count", [0, 1, TOGETHER, TOGETHER + 1, 5 * TOGETHER])
def test_replies_to_many_commands_come_in_their_order(tmp_path: Path, count: int) -> None:
    with (
        closing(AnsweringServer(tmp_path, echoing)) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=2)) as client,
    ):
        assert [b"%d" % number for number in range(count)] == list(echoes(client, count))
        assert b"a" == client.execute_command("ECHO", "a")
        assert 1 == server.connections


@pytest.mark.parametrize(
    ("how", "error"), [(refused, ServerRefused), (cut, ConnectionFailed), (late, AnswerLate)]
)
def test_a_failure_among_many_commands_is_told_and_leaves_no_reply_behind(
    tmp_path: Path, how: Any, error: type[WireError]
) -> None:
    at = TOGETHER + 3
    with (
        closing(AnsweringServer(tmp_path, failing(at, how))) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=0.5)) as client,
    ):
        replies = echoes(client, 2 * TOGETHER)  # all are sent before the first reply is read
        assert [b"%d" % number for number in range(at)] == [next(replies) for _ in range(at)]
        with pytest.raises(error):
            next(replies)

        assert b"a" == client.execute_command("ECHO", "a")
        assert 2 == server.connections


def test_who_takes_some_of_many_replies_leaves_none_for_the_next(tmp_path: Path) -> None:
    with (
        closing(AnsweringServer(tmp_path, echoing)) as server,
        closing(WireClient(server.address, connect_timeout_s=2, answer_timeout_s=2)) as client,
    ):
        with closing(echoes(client, 4 * TOGETHER)) as replies:
            assert b"0" == next(replies)
            assert b"other" == client.execute_command("ECHO", "other"), "in between"

        assert b"a" == client.execute_command("ECHO", "a")


# --- Large and slow ------------------------------------------------------------------------------


@pytest.mark.server
def test_a_huge_reply_is_read_whole(server: ValkeyServer) -> None:
    value = os.urandom(1 << 20) * 32
    with closing(client_of(server.url)) as client:
        client.set("huge", value)

        assert value == client.get("huge")
        client.delete("huge")


# --- A server that ends and comes back -----------------------------------------------------------


def new_run(run: str) -> Append:
    requested = facts.RunRequested(
        workflow="w", workflow_version=1, digest="", plan={}, input=Payload.of(1)
    )
    return Append(run=run, op="op1", writer=AsNew("d"), events=(NewEvent(requested),))


@pytest.mark.server
def test_an_append_whose_reply_is_lost_is_repeated_to_no_effect(
    server: ValkeyServer, store: RedisEventStore, tmp_path: Path
) -> None:
    with closing(Relay(server.socket, tmp_path)) as relay:
        through = RedisEventStore(relay.url)
        through.append(new_run("warm"))
        relay.pass_next = 0
        with pytest.raises(StoreUnavailable, match="no connection"):
            through.append(new_run("r1"))
        assert 1 == len(store.read("r1"))

        assert through.append(new_run("r1")).repeated
        assert 1 == len(store.read("r1"))
        through.close()


@pytest.mark.server
def test_a_server_that_is_killed_in_the_middle_of_a_reply_and_comes_back(tmp_path: Path) -> None:
    value = b"x" * 300_000
    with (
        ValkeyServer(appendonly="yes", appendfsync="always") as server,
        closing(Relay(server.socket, tmp_path)) as relay,
        closing(client_of(relay.url)) as client,
    ):
        client.set("large", value)
        relay.pass_next = 1_000
        with pytest.raises(ConnectionFailed):
            client.get("large")
        server.restart()

        assert value == client.get("large")


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


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for `localhost`, that nobody vouches for, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, format_, unencrypted = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, format_, unencrypted))
    return path


@pytest.fixture
def tls_relay(server: ValkeyServer, certificate: Path, tmp_path: Path) -> Iterator[Relay]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    relay = Relay(server.socket, tmp_path, tls=context)
    yield relay
    relay.close()


@pytest.mark.server
def test_over_tls_a_connection_is_used_again(
    tls_relay: Relay, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TLS sends by itself, as tickets, is no reply; large replies come in many records."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    value = os.urandom(1 << 20)
    with closing(client_of(tls_relay.url)) as client:
        first = client.execute_command("CLIENT", "ID")
        client.set("large", value)

        assert value == client.get("large")
        assert first == client.execute_command("CLIENT", "ID")
        client.delete("large")


@pytest.mark.server
def test_over_tls_a_reply_may_be_late_or_lost(
    tls_relay: Relay, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with closing(client_of(tls_relay.url, answer_timeout_s=0.2)) as client:
        with pytest.raises(AnswerLate):
            client.execute_command("BLPOP", "nothing", "0.5")
        tls_relay.pass_next = 2
        with pytest.raises(ConnectionFailed):
            client.get("key")

        assert b"a" == client.execute_command("ECHO", "a")


@pytest.mark.server
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_who_can_not_prove_who_it_is_hears_nothing(
    tls_relay: Relay, certificate: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that nobody vouches for, and one that is another host's."""
    if host != "localhost":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = tls_relay.url.replace("localhost", host).replace("//", "//:canary@")
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate verify failed") as refused:
        RedisEventStore(url).row("r1")

    assert "canary" not in str(refused.value)


@pytest.mark.server
def test_a_server_without_tls_is_no_server_for_rediss() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        answering = threading.Thread(target=lambda: listening.accept()[0].close())
        answering.start()
        with pytest.raises(StoreUnavailable, match="no connection"):
            RedisEventStore(f"rediss://127.0.0.1:{port}").row("r1")
        answering.join()
