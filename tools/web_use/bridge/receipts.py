"""
What the bridge must not forget: acts, intents first, and which windows and views it had.

An act's intent is on disk before its input is sent, so that no crash can make it happen twice: a
command that comes again under the same id gets what is stored here.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.bridge.redaction import Redaction
from mulligan.tools.web_use.results import Receipt

__all__ = ["Kept", "Records", "View"]

KEPT_DAYS = 366
"""How long a step may take to come again, and get its receipt instead of a second click."""

_TABLES = """
create table if not exists acts (
    action text primary key, digest text not null, receipt blob not null,
    at integer not null default (unixepoch())
);
create table if not exists views (
    window text not null, url text not null, rules blob not null, primary key (window, url)
);
create table if not exists bindings (
    run text not null, window text not null, primary key (run, window)
);
"""


class Kept(msgspec.Struct, frozen=True):
    """An act as it is stored: the digest of its command, and its receipt."""

    digest: str
    receipt: Receipt


class View(msgspec.Struct, frozen=True):
    """A page that a window showed: to be opened again after a restart."""

    window: str
    url: str
    rules: WebRules


class Records:
    """
    A small SQLite file; every commit is on disk when it returns (`synchronous=FULL`). Secrets are
    not in it: a receipt has stars for them, and a view at an address that holds one is not kept.
    """

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._redaction = redaction
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.executescript(_TABLES)
        self._db.execute("delete from acts where at < unixepoch() - ?", (KEPT_DAYS * 86_400,))

    def act(self, action: str) -> Kept | None:
        """What is known of the act of that id."""
        row = self._db.execute(
            "select digest, receipt from acts where action = ?", (action,)
        ).fetchone()
        return Kept(row[0], msgspec.json.decode(row[1], type=Receipt)) if row else None

    def keep(self, digest: str, receipt: Receipt) -> None:
        """Store an act's intent or what came of it, in the place of what was known."""
        plain = self._redaction.value(msgspec.to_builtins(receipt))
        self._db.execute(
            "insert or replace into acts (action, digest, receipt) values (?, ?, ?)",
            (receipt.action, digest, msgspec.json.encode(plain)),
        )

    def views(self, window: str) -> list[View]:
        """What a window showed when it was last stored."""
        rows = self._db.execute("select url, rules from views where window = ?", (window,))
        return [View(window, url, msgspec.json.decode(rules, type=WebRules)) for url, rules in rows]

    def keep_views(self, window: str, views: list[View]) -> None:
        """Store what a window shows now."""
        rows = [
            (window, view.url, msgspec.json.encode(view.rules))
            for view in views
            if view.url == self._redaction.text(view.url)
        ]
        self._db.execute("begin immediate")
        self._db.execute("delete from views where window = ?", (window,))
        self._db.executemany("insert or ignore into views values (?, ?, ?)", rows)
        self._db.execute("commit")

    def bind(self, run: str, window: str) -> None:
        """Let a run use the pages of a window that is not its own."""
        self._db.execute("insert or ignore into bindings values (?, ?)", (run, window))

    def bound(self, run: str) -> list[str]:
        """The windows whose pages a run may use besides its own."""
        rows = self._db.execute("select window from bindings where run = ? order by 1", (run,))
        return [window for (window,) in rows]

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
