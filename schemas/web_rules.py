"""Where a browser may go: hosts, and networks beyond the public internet (WEB-7)."""

from __future__ import annotations

from ipaddress import ip_network

import msgspec

__all__ = ["HOST_PATTERN", "WebRules", "network"]

_LABELS = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"
HOST_PATTERN = rf"^(\*|(\*\.)?{_LABELS}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?$"


class WebRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    `allow` are hosts: `example.org`, `*.example.org` (which is what stands below it),
    `example.org:8443`, or `*`; none is nowhere. `networks` are those beyond the public internet
    that these hosts may lead to, such as `127.0.0.0/8` or `10.0.0.0/8`.
    """

    allow: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


def network(text: str) -> str:
    """`text`, if it is a network. Raises ValueError where it is none."""
    ip_network(text)
    return text
