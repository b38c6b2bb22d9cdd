"""
The port of live output: what models say while they say it, for people who watch.

Live output is never stored. It passes through the server to those who listen at that moment, and
nothing of a run depends on it: a delta may be lost, and the log does not know that there was one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

import msgspec


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag="delta", tag_field="type"):
    """
    A stretch of a response, as received: the message's text, or the arguments of the call that
    hands in the output. `offset` is the number of characters of that kind that came before it in
    the response: one that is larger than what a reader has seen tells that it missed some.
    """

    run: str
    node: str
    invocation: str
    attempt: int
    request_id: str
    kind: Literal["text", "output"]
    offset: int
    text: str

    def __repr__(self) -> str:
        return f"Delta({self.request_id!r}, {self.kind!r}, <{len(self.text)} characters>)"


class Subscription(Protocol):
    """One reader of one run's live output; for one thread."""

    def heard(self, wait_ms: int) -> list[Delta]:
        """
        What has come since the last call, in order; nothing there, wait up to `wait_ms` for it.

        Raises:
            StoreUnavailable: the server is away; what was said meanwhile is lost.
        """
        ...

    def close(self) -> None:
        """Listen no longer."""
        ...


class Deltas(Protocol):
    """Safe for use by threads."""

    def publish(self, delta: Delta) -> None:
        """
        Hand a delta to whoever listens now; it waits for no reader.

        Raises:
            StoreUnavailable, StoreFull, StoreUnfit: it was not handed on.
        """
        ...

    def listened(self, runs: Iterable[str]) -> set[str]:
        """
        Those of `runs` to which somebody listens.

        Raises:
            StoreUnavailable, StoreFull, StoreUnfit: nobody can tell.
        """
        ...

    def subscribe(self, run: str) -> Subscription:
        """
        Listen to a run, from when this returns.

        Raises:
            StoreUnavailable, StoreFull, StoreUnfit: the server is away, or won't have us.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
