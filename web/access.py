"""
Who is let in: whoever knows a token, from pages of our own origin, under a name that is ours.

Three doors, each against another intruder. A token keeps out who can reach the port. The `Host`
header is held to names that are ours, since a foreign name that leads here is another's page that
passes for ours (DNS rebinding); addresses can't be made to lead elsewhere. `Origin` and
`Sec-Fetch-Site` keep out other sites' pages in the browser of somebody who is let in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

import msgspec

COOKIE = "mulligan_session"
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/session"})
OPEN_FOLDER = "/page/"
"""What needs no token: whether the server lives, and the page as long as it shows nothing."""

_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?")
_SAME = ("same-origin", "none")


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not let in."""

    status: int
    code: str
    detail: str


class Access:
    """
    Args:
        tokens: what lets in, each as good as the others; none: whoever reaches the port.
        hosts: names under which this server is asked for, besides `localhost` and addresses.
    """

    def __init__(self, tokens: Sequence[str] = (), hosts: Sequence[str] = ()) -> None:
        self._digests = [_digest(token) for token in tokens]
        self._sessions = [_session(token) for token in tokens]
        self._hosts = frozenset(host.lower() for host in hosts)

    @property
    def needs_token(self) -> bool:
        """Whether a token is asked for at all."""
        return bool(self._digests)

    def refusal(self, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is not let in, or None. Names of headers are in small letters."""
        return (
            self._foreign_host(headers)
            or self._foreign_origin(headers)
            or (None if _is_open(path) else self._without_token(headers))
        )

    def session(self, token: str) -> str | None:
        """The value of the cookie that lets in as a token does; None: it is no token."""
        matching = [
            session
            for digest, session in zip(self._digests, self._sessions, strict=True)
            if hmac.compare_digest(digest, _digest(token))
        ]
        return matching[0] if matching else None

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the headers hold a token, or a cookie that was given for one."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.session(token.strip()) is not None:
            return True
        given = _cookie(headers.get("cookie", "")).encode()
        return any(hmac.compare_digest(given, one.encode()) for one in self._sessions)

    def _foreign_host(self, headers: Mapping[str, str]) -> Refusal | None:
        name = _name_of(headers.get("host", ""))
        if name == "localhost" or name in self._hosts or _is_address(name):
            return None
        return Refusal(
            421,
            "foreign_host",
            "this server is not known by the name in the request's Host header; MULLIGAN_HTTP_HOSTS"
            " lists its names",
        )

    def _foreign_origin(self, headers: Mapping[str, str]) -> Refusal | None:
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != headers["host"].lower():
            return Refusal(403, "foreign_origin", "pages of other origins may not ask here")
        site = headers.get("sec-fetch-site", "none")
        if site not in _SAME and headers.get("sec-fetch-mode") != "navigate":
            return Refusal(403, "foreign_origin", "pages of other sites may not ask here")
        return None

    def _without_token(self, headers: Mapping[str, str]) -> Refusal | None:
        if not self.needs_token or self.knows(headers):
            return None
        return Refusal(
            401, "token_missing", "send a token: `Authorization: Bearer …`, or POST /session first"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`, an address or localhost."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _name_of(host: str) -> str:
    """The name in a `Host` header (RFC 9110), without port and brackets; "" where it is none."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"].rstrip(".")).lower() if found is not None else ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(header: str) -> str:
    """
    Ours, whatever else stands there: cookies know no ports, so that a browser sends those of every
    server on this machine, and other servers' need not keep to the standard.
    """
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _session(token: str) -> str:
    return hmac.new(token.encode(), b"mulligan session", hashlib.sha256).hexdigest()
