"""Where a browser may go: hosts, and networks beyond the public internet (WEB-7)."""

from __future__ import annotations

import re
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

import msgspec

__all__ = ["HOST_PATTERN", "WebRules", "network"]

_LABELS = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"
HOST_PATTERN = rf"^(\*|(\*\.)?{_LABELS}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?$"
_ENTRY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>\d+))?")

_UNICAST = IPv6Network("2000::/3")
"""All of IPv6 that is given to hosts (RFC 4291, 2.4; IANA's registry)."""
_RESERVED = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
"""Of protocols (RFC 6890) and of relays that are no more (RFC 7526)."""

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
        return found.is_global and not found.is_multicast and _is_assigned(found)


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


def _is_assigned(address: Address) -> bool:
    """
    Whether it is of what is given to hosts of the internet. The library takes what is in no table
    for public: site-local addresses, translated ones of IPv4, a cloud's metadata at 192.0.0.192.
    """
    if isinstance(address, IPv6Address):
        return address in _UNICAST
    return not any(address in one for one in _RESERVED)


def _inside(address: Address, named: str) -> bool:
    net = ip_network(named)
    return address.version == net.version and address in net
