"""Servers that answer as a test wants them to, and one that stands before a real server."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from select import select

import hiredis

from mulligan.wire_address import Address

Answer = Callable[[socket.socket, list[bytes]], bool]
"""Answers a command over its connection; whether the connection goes on."""

_INTRODUCTIONS = {b"HELLO": b"%1\r\n+proto\r\n:3\r\n", b"CLIENT": b"+OK\r\n"}


class AnsweringServer:
    """Listens on a unix socket, a thread for each connection, until it is closed."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self.address = Address(path=str(folder / "answering"))
        self.connections = 0
        self._answer = answer
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "answering"))
        self._listening.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End it; clients have closed their connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()
        Path(self.address.path or "").unlink()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        reader = hiredis.Reader()
        with peer, suppress(OSError):  # clients hang up
            while data := peer.recv(65_536):
                reader.feed(data)
                while (command := reader.gets()) is not False:
                    if not self._answer(peer, command):
                        return


def in_turn(*replies: bytes | None) -> Answer:
    """
    Gives each command the next of some replies, where None ends the connection. A client that
    introduces itself first, as redis-py does, is welcome.
    """
    left = iter(replies)

    def answer(peer: socket.socket, command: list[bytes]) -> bool:
        introduction = _INTRODUCTIONS.get(command[0].upper())
        reply = introduction or next(left)
        if reply is not None:
            peer.sendall(reply)
        return reply is not None

    return answer


class Relay:
    """
    Stands before a real server, on a unix socket, or with TLS on a port. `pass_next` bounds how
    many bytes of the next reply it passes on before it ends the connection: 0 loses the reply of a
    command that was carried out.
    """

    def __init__(self, target: Path, folder: Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.pass_next: int | None = None
        self._target, self._tls = target, tls
        self._listening = socket.socket(socket.AF_INET if tls else socket.AF_UNIX)
        self._listening.bind(("127.0.0.1", 0) if tls else str(folder / "relay"))
        self._listening.listen()
        name = self._listening.getsockname()
        self.url = f"rediss://localhost:{name[1]}" if tls else f"unix://{name}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End it; clients have closed their connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._target))
            try:
                near = self._tls.wrap_socket(peer, server_side=True) if self._tls else peer
            except OSError:
                return peer.close()  # the client did not like our certificate
            with near:
                while self._pass_on(near, server):
                    pass

    def _pass_on(self, near: socket.socket, server: socket.socket) -> bool:
        # A TLS connection may hold bytes that select does not see; commands come one by one.
        readable, _, _ = select([near, server], [], [])
        if near in readable:
            asked = _received(near)
            server.sendall(asked)
            return bool(asked)
        reply = _received(server)
        if self.pass_next is None:
            near.sendall(reply)
            return bool(reply)
        near.sendall(reply[: self.pass_next])
        self.pass_next = None
        return False


def _received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(65_536)
    except OSError:
        return b""  # a reset is an end, too
