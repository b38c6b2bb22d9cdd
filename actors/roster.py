"""
The live workers and the code they carry: whether anyone could work what this one can't.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from mulligan._version import __version__
from mulligan.events.store import EventStore

TTL_MS = 15_000
"""A worker that has not said for so long that it lives counts as dead."""

ANNOUNCE_S = 5.0

MOST_CODE = 1_000
"""Pieces of code that a card names; the ones looked for longest ago are left out."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a worker process says of itself. `carries` and `lacks` name code as `module:attribute@`
    and its digest, as far as a run has asked for it here.
    """

    worker: str
    host: str
    pid: int
    version: str
    started_ms: int
    app: str | None = None
    carries: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class Roster:
    """This process's place among the workers; safe for use by threads."""

    def __init__(self, store: EventStore, app: str | None = None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._code: OrderedDict[str, bool] = OrderedDict()
        host, pid = socket.gethostname(), os.getpid()
        self._card = Card(
            worker=f"{host}:{pid}:{secrets.token_hex(4)}",
            host=host,
            pid=pid,
            version=__version__,
            started_ms=int(time.time() * 1_000),
            app=app,
        )

    def note(self, code: str, *, here: bool) -> None:
        """Remember that a run asked for `code`, and whether it is here."""
        with self._lock:
            self._code[code] = here
            self._code.move_to_end(code)
            if len(self._code) > MOST_CODE:
                self._code.popitem(last=False)

    def announce(self) -> list[Card]:
        """Say that this worker lives; the cards of all that do. Raises StoreUnavailable."""
        card = self.card()
        raw = self._store.announce(card.worker, msgspec.json.encode(card), TTL_MS)
        return _decoded(raw.values())

    def leave(self) -> None:
        """Say that this worker ends. Raises StoreUnavailable."""
        self._store.announce(self._card.worker, b"", 0)

    def others_may_carry(self, code: str) -> bool:
        """Whether another live worker has `code`, or has not been asked for it yet."""
        cards = self.announce()
        return any(c.worker != self._card.worker and code not in c.lacks for c in cards)

    def card(self) -> Card:
        """What this worker says of itself now."""
        with self._lock:
            known = tuple(self._code.items())
        return msgspec.structs.replace(
            self._card,
            carries=tuple(code for code, here in known if here),
            lacks=tuple(code for code, here in known if not here),
        )


def live_workers(store: EventStore) -> list[Card]:
    """The cards of all live workers. Raises StoreUnavailable."""
    return _decoded(store.workers().values())


def _decoded(raw: Iterable[bytes]) -> list[Card]:
    return [msgspec.json.decode(card, type=Card) for card in raw]
