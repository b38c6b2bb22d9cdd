"""Pure: whether a URL is one that the browser opens."""

from __future__ import annotations

from urllib.parse import urlsplit

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["check_url", "host_and_port", "without_query"]

PORTS = {"http": 80, "https": 443}


def check_url(url: str, rules: WebRules) -> None:
    """
    Raises WebUseFailed: `unsupported_url` for what is no http(s) URL, `permission_denied` for a
    host that the rules do not name. What a host leads to is checked where it is resolved.
    """
    host, port = host_and_port(url)
    if not rules.host_allowed(host, port):
        raise WebUseFailed(
            "permission_denied",
            f"{host}:{port} is none of the hosts that are allowed here "
            "(a workflow's settings.web.allow, others' MULLIGAN_BROWSER_ALLOW)",
        )


def host_and_port(url: str) -> tuple[str, int]:
    """Of an http(s) URL. Raises WebUseFailed, `unsupported_url`, for anything else."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WebUseFailed("unsupported_url", "this is no URL") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise WebUseFailed(
            "unsupported_url", "only http:// and https:// URLs with a host are opened"
        )
    if parts.username is not None or parts.password is not None:
        raise WebUseFailed("unsupported_url", "a URL with a user or password is not opened")
    return parts.hostname, port or PORTS[parts.scheme]


def without_query(url: str) -> str:
    """A URL as it may be kept: without query and fragment, which may hold what was typed."""
    return url.partition("?")[0].partition("#")[0][:500]
