"""
Where one message of Redis's protocol (RESP 2 and 3) ends and the next begins, for who passes them
on unread. Source: the specification at redis.io/docs/latest/develop/reference/protocol-spec.
"""

from __future__ import annotations

from collections.abc import Iterator

_LINE_END = b"\r\n"
_OF_BYTES = b"$!="
"""Types whose line tells how many bytes follow."""

_OF_PARTS = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}
"""Types whose line tells how many parts follow, and how many messages each part is."""


class Frames:
    """Cuts a stream of bytes into whole messages; what is not whole yet is kept."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The messages that are whole now, in order, byte for byte."""
        self._kept += piece
        while (end := _end_of_message(self._kept)) is not None:
            message = bytes(self._kept[:end])
            del self._kept[:end]
            yield message


def _end_of_message(data: bytearray) -> int | None:
    """Where the first message ends, or None if it is not whole."""
    at, missing = 0, 1
    while missing:
        line_end = data.find(_LINE_END, at)
        if line_end < 0:
            return None
        kind, after = data[at], line_end + len(_LINE_END)
        missing -= 1
        if kind in _OF_BYTES:
            size = int(data[at + 1 : line_end])
            after += size + len(_LINE_END) if size >= 0 else 0
        elif kind in _OF_PARTS:
            missing += max(int(data[at + 1 : line_end]), 0) * _OF_PARTS[kind]
            missing += kind == ord("|")  # attributes precede the message that they are of
        at = after
    return at if at <= len(data) else None
