"""
Addresses of servers that `wire.py` speaks to, read as redis-py reads them.
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

SCHEMES = ("redis", "rediss", "unix")
OPTIONS = frozenset({"db", "username", "password"})
"""What may stand behind the `?`; an address with anything else is for redis-py."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, and as whom we come. `path` is that of a unix socket, or None."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    tls: bool = False
    username: str | None = None
    password: str | None = None
    db: int = 0

    def __repr__(self) -> str:
        return f"Address({self.place})"

    @property
    def place(self) -> str:
        """Where the server is, without credentials."""
        return f"{self.host}:{self.port}" if self.path is None else f"unix:{self.path}"

    def first_words(self) -> list[tuple[str | int, ...]]:
        """The commands that open a connection."""
        words: list[tuple[str | int, ...]] = []
        if self.username is not None:
            # A user may have no password; then any is right.
            words.append(("AUTH", self.username, self.password or ""))
        elif self.password is not None:
            words.append(("AUTH", self.password))
        if self.db:
            words.append(("SELECT", self.db))
        return words


def address_of(url: str) -> Address | None:
    """
    The address that a URL names; None for one that asks for more than this speaks.

    Raises:
        ValueError: there can't be such a port or database.
    """
    parts = urlsplit(url)
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.scheme not in SCHEMES or not OPTIONS.issuperset(options):
        return None
    username = unquote(parts.username) if parts.username else options.get("username")
    password = unquote(parts.password) if parts.password else options.get("password")
    if parts.scheme == "unix":
        if not parts.path:
            return None
        return Address(
            path=unquote(parts.path), username=username, password=password, db=_db(options, "")
        )
    return Address(
        host=unquote(parts.hostname or "localhost"),
        port=parts.port or 6379,
        tls=parts.scheme == "rediss",
        username=username,
        password=password,
        db=_db(options, parts.path),
    )


def _db(options: dict[str, str], path: str) -> int:
    """The database: as an option, else as the path where that is a number."""
    if "db" in options:
        return int(options["db"])
    named = unquote(path).replace("/", "")
    return int(named) if named.isdecimal() else 0
