"""A reader of server-sent events, as browsers read them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A record, its data read as JSON."""

    event: str
    id: str | None
    data: Any


class Stream:
    """
    A stream over a socket of its own; `status` and the records, as they come. `takes` are the bytes
    that it lets the system keep for it.
    """

    def __init__(self, port: int, path: str, takes: int | None = None, **headers: str) -> None:
        self.socket = socket.socket()
        if takes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, takes)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", port))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **named}.items()]
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
        self._read = self.socket.makefile("rb")
        self.status = int(self._read.readline().split()[1])
        while self._read.readline().strip():
            pass

    def records(self) -> Iterator[Record]:
        """The records until the stream ends."""
        fields: dict[str, str] = {}
        for line in self._lines():
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
                continue
            if "data" in fields:
                yield Record(
                    fields.get("event", "message"), fields.get("id"), json.loads(fields["data"])
                )
            fields = {}

    def take(self, count: int) -> list[Record]:
        """The next records, so many."""
        found = []
        for one in self.records():
            found.append(one)
            if len(found) == count:
                return found
        raise AssertionError(f"the stream ended after {found}")

    def close(self) -> None:
        """Hang up."""
        self._read.close()
        self.socket.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lines(self) -> Iterator[str]:
        text = b""
        while size := int(self._read.readline() or b"0", 16):
            text += self._read.read(size)
            self._read.readline()
            *whole, text = text.split(b"\n")
            yield from (line.decode() for line in whole)
