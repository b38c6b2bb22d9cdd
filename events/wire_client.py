"""
The commands of the log over connections of our own (`mulligan/wire.py`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mulligan.wire import ServerRefused, Wire, WireError, Word
from mulligan.wire_address import Address

Fields = dict[bytes, bytes]


class WireClient:
    """
    Connections to one server, one for each thread that asks at the same time; safe for use by
    threads, and in a forked child, which makes its own.

    It has the commands that the log uses, by the names, arguments and answers that redis-py has for
    them, so that the log runs on a client of redis-py just as well. It repeats nothing.
    """

    def __init__(
        self, address: Address, *, connect_timeout_s: float, answer_timeout_s: float
    ) -> None:
        self.address = address
        self.answer_timeout_s = answer_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._idle: deque[Wire] = deque()
        self._pid = os.getpid()

    def execute_command(self, *words: Word) -> Any:
        """Send one command; see `Wire.call`."""
        wire = self._take()
        try:
            reply = wire.call(*words)
        except ServerRefused as error:
            self._after_refusal(wire, error)
            raise
        except WireError:
            # The others were made to the same end: each would cost somebody a failure, or a wait.
            self.close()
            raise
        self._idle.append(wire)
        return reply

    def calls(self, commands: Iterable[tuple[Word, ...]]) -> Iterator[Any]:
        """Send commands one upon another and yield their replies; see `Wire.calls`."""
        wire = self._take()
        try:
            yield from wire.calls(commands)
        except ServerRefused as error:
            if error.code == "READONLY":
                self.close()
            raise
        except WireError:
            self.close()
            raise
        self._idle.append(wire)

    def close(self) -> None:
        """Let go of connections that nobody uses."""
        while (wire := self._next_idle()) is not None:
            wire.close()

    def __del__(self) -> None:
        self.close()

    def _take(self) -> Wire:
        """A connection that was alive a moment ago: the one used last, or a new one."""
        if self._pid != os.getpid():
            self._idle, self._pid = deque(), os.getpid()
        while (wire := self._next_idle()) is not None:
            if wire.idle():
                return wire
            wire.close()
        return Wire(
            self.address,
            connect_timeout_s=self._connect_timeout_s,
            answer_timeout_s=self.answer_timeout_s,
        )

    def _next_idle(self) -> Wire | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _after_refusal(self, wire: Wire, error: ServerRefused) -> None:
        """After a failover the same name may lead to another server: ask for it anew."""
        self._idle.append(wire)
        if error.code == "READONLY":
            self.close()

    # --- Strings, hashes, sets -------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """A string."""
        found: bytes | None = self.execute_command("GET", key)
        return found

    def set(self, key: str, value: Word, *, nx: bool = False) -> bool:
        """Set a string, with `nx` only if there is none; whether it was set."""
        return self.execute_command("SET", key, value, *(["NX"] if nx else [])) is not None

    def delete(self, *keys: str) -> int:
        """Delete keys; how many there were."""
        return int(self.execute_command("DEL", *keys))

    def unlink(self, *keys: str) -> int:
        """Delete keys, their memory later; how many there were."""
        return int(self.execute_command("UNLINK", *keys))

    def hget(self, key: str, field: str) -> bytes | None:
        """A field of a hash."""
        found: bytes | None = self.execute_command("HGET", key, field)
        return found

    def hmget(self, key: str, fields: Sequence[Word]) -> list[bytes | None]:
        """Some fields of a hash, in their order."""
        found: list[bytes | None] = self.execute_command("HMGET", key, *fields)
        return found

    def hgetall(self, key: str) -> Fields:
        """A hash."""
        return _pairs(self.execute_command("HGETALL", key))

    def hdel(self, key: str, *fields: Word) -> int:
        """Delete fields of a hash; how many there were."""
        return int(self.execute_command("HDEL", key, *fields))

    def hscan(
        self, key: str, cursor: int, match: str | None = None, *, count: int
    ) -> tuple[int, Fields]:
        """The next cursor, and some of a hash, or of what fits a pattern of it."""
        fitting = ("MATCH", match) if match is not None else ()
        following, flat = self.execute_command("HSCAN", key, cursor, *fitting, "COUNT", count)
        return int(following), _pairs(flat)

    def zrange(self, key: str, start: int, end: int) -> list[bytes]:
        """Members of a sorted set, by place."""
        found: list[bytes] = self.execute_command("ZRANGE", key, start, end)
        return found

    # --- Streams ---------------------------------------------------------------------------------

    def xrange(
        self,
        name: str,
        min: str = "-",  # noqa: A002 - as redis-py has it
        max: str = "+",  # noqa: A002 - as redis-py has it
        count: int | None = None,
    ) -> list[tuple[bytes, Fields]]:
        """Entries of a stream between two ids, oldest first."""
        return self._entries("XRANGE", name, min, max, count)

    def xrevrange(
        self,
        name: str,
        max: str = "+",  # noqa: A002 - as redis-py has it
        min: str = "-",  # noqa: A002 - as redis-py has it
        count: int | None = None,
    ) -> list[tuple[bytes, Fields]]:
        """Entries of a stream between two ids, newest first."""
        return self._entries("XREVRANGE", name, max, min, count)

    def xread(self, streams: dict[str, str], *, count: int, block: int) -> list[Any]:
        """What comes to some streams within `block` milliseconds."""
        bounds = ("COUNT", count, "BLOCK", block)
        found = self.execute_command("XREAD", *bounds, "STREAMS", *streams, *streams.values())
        return list(found or [])

    def _entries(
        self, command: str, name: str, first: str, last: str, count: int | None
    ) -> list[tuple[bytes, Fields]]:
        bound: tuple[Word, ...] = () if count is None else ("COUNT", count)
        found = self.execute_command(command, name, first, last, *bound)
        return [(entry_id, _pairs(flat)) for entry_id, flat in found]

    # --- The server ------------------------------------------------------------------------------

    def info(self, section: str | None = None) -> dict[str, str | int]:
        """What the server says of itself, numbers as numbers."""
        text: bytes = self.execute_command("INFO", *([section] if section else []))
        lines = (line.partition(":") for line in text.decode().splitlines() if ":" in line)
        return {name: int(said) if said.isdecimal() else said for name, _, said in lines}

    def config_get(self, pattern: str) -> dict[str, str]:
        """Settings of the server."""
        found = _pairs(self.execute_command("CONFIG", "GET", pattern))
        return {name.decode(): said.decode() for name, said in found.items()}


def _pairs(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))
