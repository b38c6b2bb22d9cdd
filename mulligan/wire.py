"""
One connection to a Redis or Valkey server: a blocking socket and hiredis, nothing else.

redis-py is three quarters of what an append costs a worker, and a third of what a command costs
that only looks. This speaks what the log needs (RESP 2: a command out, its reply in) and no more;
`events/redis_connection.py` leads to redis-py for whatever else an address asks for.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any, TypeAlias

import hiredis

from mulligan.wire_address import Address

if TYPE_CHECKING:
    from ssl import SSLSocket

READ_BYTES = 65_536

TOGETHER = 10
"""
Commands of a row of calls in a packet, of which two are under way: enough for the server not to
wait for us, and so few that what it has ready stays small. Two hundred took half as long again.
"""

QUOTED = ", with args beginning with"
"""What servers say before they quote a command's arguments."""

Word: TypeAlias = "str | bytes | int"
"""A part of a command."""


class WireError(Exception):
    """What may go wrong between us and a server."""


class ConnectionFailed(WireError):
    """There is no connection, or it ended; a command that was sent may have been carried out."""


class AnswerLate(WireError):
    """No answer in time; the command may have been carried out."""


class ServerRefused(WireError):
    """
    An error reply, over a connection that is as good as before; `code` is its first word.

    What a server quotes of a command that it does not know is left out: passwords, or what is
    written.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text.partition(QUOTED)[0])
        self.code = text.partition(" ")[0]


class Wire:
    """
    A connection, authenticated and at its database. One thread at a time may use it.

    It closes itself with the first command that did not come to a whole reply, for whatever reason,
    a person's Ctrl-C among them: what may still arrive would be taken for the next command's reply.

    Args:
        connect_timeout_s: for the connection and its first words.
        answer_timeout_s: for each answer after.

    Raises:
        ConnectionFailed, AnswerLate, ServerRefused: it can't be made.
    """

    def __init__(
        self, address: Address, *, connect_timeout_s: float, answer_timeout_s: float
    ) -> None:
        self._reader = hiredis.Reader(replyError=ServerRefused)
        self._readable = poll()
        self._socket = _connected(address, connect_timeout_s)
        try:
            self._readable.register(self._socket, POLLIN)
            for words in address.first_words():
                self.call(*words)
            _wait_at_most(self._socket, answer_timeout_s)
        except BaseException:
            self.close()
            raise

    def call(self, *words: Word) -> Any:
        """
        Send a command and return its reply: bytes, int, None, or a list of such.

        Raises:
            ServerRefused: the reply is an error; the connection is as good as before.
            ConnectionFailed, AnswerLate: there is no reply, and the connection is closed.
        """
        try:
            reply = self._exchange(words)
        except BaseException:
            self.close()
            raise
        if isinstance(reply, ServerRefused):
            raise reply
        return reply

    def calls(self, commands: Iterable[tuple[Word, ...]]) -> Iterator[Any]:
        """
        Send commands, some before the replies to those before them are read, and yield each reply
        in turn: the server works on the next ones meanwhile. The connection stays open only for
        who takes them all.

        Raises:
            ServerRefused: a reply is an error; here, too, the connection is closed.
            ConnectionFailed, AnswerLate: as `call`.
        """
        left = iter(commands)
        try:
            sent = self._send(list(islice(left, TOGETHER)))
            while sent:
                ahead = self._send(list(islice(left, TOGETHER)))
                for _ in range(sent):
                    yield self._next_reply()
                sent = ahead
        except BaseException:
            self.close()
            raise

    def idle(self) -> bool:
        """Whether it is open, and nothing has come since the last reply, not even its end."""
        return not self.closed and not self._reader.has_data() and not self._readable.poll(0)

    @property
    def closed(self) -> bool:
        """Whether it has ended from our side."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """End the connection; again does nothing."""
        self._socket.close()

    def _exchange(self, words: tuple[Word, ...]) -> Any:
        try:
            # Its stub takes tuples of a single word.
            self._socket.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]
            return self._reply()
        except (OSError, hiredis.ProtocolError) as error:
            raise _told(error) from error

    def _send(self, commands: list[tuple[Word, ...]]) -> int:
        """Send commands together; how many they are."""
        packed = [hiredis.pack_command(words) for words in commands]  # type: ignore[arg-type]
        try:
            if packed:
                self._socket.sendall(b"".join(packed))
        except OSError as error:
            raise _told(error) from error
        return len(packed)

    def _next_reply(self) -> Any:
        try:
            reply = self._reply()
        except (OSError, hiredis.ProtocolError) as error:
            raise _told(error) from error
        if isinstance(reply, ServerRefused):
            raise reply
        return reply

    def _reply(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionFailed("the server closed the connection")
            self._reader.feed(data)
        return reply


def _told(error: Exception) -> WireError:
    """What went wrong on the socket, as one of ours."""
    match error:
        case TimeoutError() | BlockingIOError():
            return AnswerLate("no answer in time")
        case OSError():
            return ConnectionFailed(error.strerror or type(error).__name__)
        case _:
            return ConnectionFailed("this is no Redis server")


def _wait_at_most(connected: socket.socket | SSLSocket, timeout_s: float) -> None:
    """
    Bound each wait of a connection from now on. The kernel does so with no call of its own; Python
    asks before each send and each read whether it would have to wait.
    """
    if type(connected) is not socket.socket:
        connected.settimeout(timeout_s)  # encryption reads and writes as it likes
        return
    bound = struct.pack("@ll", *divmod(max(int(timeout_s * 1_000_000), 1), 1_000_000))
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)


def _connected(address: Address, timeout_s: float) -> socket.socket | SSLSocket:
    try:
        if address.path is not None:
            return _unix_socket(address.path, timeout_s)
        return _tcp_socket(address, timeout_s)
    except TimeoutError:
        raise ConnectionFailed("no connection in time") from None
    except OSError as error:
        raise ConnectionFailed(error.strerror or str(error)) from error
    except ValueError as error:
        # A name that no host can have, or a path that no file can.
        raise ConnectionFailed(str(error)) from error


def _unix_socket(path: str, timeout_s: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made


def _tcp_socket(address: Address, timeout_s: float) -> socket.socket | SSLSocket:
    made = socket.create_connection((address.host, address.port), timeout_s)
    try:
        # A command is one packet; waiting for more of it only costs time.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A peer that vanished without a word is noticed between two commands, sooner or later.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _encrypted(made, address.host) if address.tls else made
    except BaseException:
        made.close()
        raise


def _encrypted(plain: socket.socket, host: str) -> SSLSocket:
    import ssl  # who speaks in the clear does not pay for it

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
