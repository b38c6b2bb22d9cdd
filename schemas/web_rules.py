"""Where a browser may go: hosts, and networks beyond the public internet (WEB-7)."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec

__all__ = ["HOST_PATTERN", "WebRules", "network"]

_LABELS = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"
HOST_PATTERN = rf"^(\*|(\*\.)?{_LABELS}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?$"
_ENTRY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>\d+))?")

Address = IPv4Address | IPv6Address


class WebRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    `allow` are hosts: `example.org`, `*.example.org` (which is what stands below it),
    `example.org:8443`, or `*`; none is nowhere. `networks` are those beyond the public internet
    that these hosts may lead to, such as `127.0.0.0/8` or `10.0.0.0/8`.
    """

    allow: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()

    def host_allowed(self, host: str, port: int) -> bool:
        """Whether an entry is about this host, and about its port if it names one."""
        return any(_fits(entry, _plain(host), port) for entry in self.allow)

    def address_allowed(self, address: str) -> bool:
        """Whether the public internet, or a network that is named, has this address."""
        found = _unmapped(ip_address(address.partition("%")[0]))
        if any(_inside(found, named) for named in self.networks):
            return True
        return found.is_global and not found.is_multicast


def network(text: str) -> str:
    """`text`, if it is a network. Raises ValueError where it is none."""
    ip_network(text)
    return text


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _fits(entry: str, host: str, port: int) -> bool:
    matched = _ENTRY.fullmatch(entry)
    if matched is None or (matched["port"] and int(matched["port"]) != port):
        return False
    wanted = _plain(matched["host"])
    if wanted.startswith("*."):
        return host.endswith(wanted[1:])
    return wanted == "*" or wanted == host


def _unmapped(address: Address) -> Address:
    """An IPv4 address that is written as IPv6 (mapped, 6to4, NAT64), as what it leads to."""
    if isinstance(address, IPv4Address):
        return address
    if address in ip_network("64:ff9b::/96"):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _inside(address: Address, named: str) -> bool:
    net = ip_network(named)
    return address.version == net.version and address in net
