"""web7: where a browser may go."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mulligan.errors import InvalidInput
from mulligan.schemas.web_rules import WebRules
from mulligan.schemas.workflow import Web
from mulligan.tools.web_use.addresses import check_url, without_query
from mulligan.tools.web_use.codes import WebUseFailed


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "EXAMPLE.org.", 80, True),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "example.org.evil.test", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("[::1]", "::1", 80, True),
        ("[::1]:81", "::1", 80, False),
        ("*", "anything.test", 80, True),
    ],
)
def test_hosts(entry: str, host: str, port: int, allowed: bool) -> None:
    assert allowed == WebRules(allow=(entry,)).host_allowed(host, port)
    assert not WebRules().host_allowed(host, port), "nothing is allowed by itself"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::1",
        "64:ff9b::a9fe:a9fe",
        "ff02::1",
        "fec0::1",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "192.0.0.192",
        "192.88.99.1",
    ],
)
def test_addresses_that_are_not_of_the_public_internet(address: str) -> None:
    assert not WebRules(allow=("*",)).address_allowed(address)


def test_networks_are_let_in_by_name_alone() -> None:
    rules = WebRules(allow=("*",), networks=("10.0.0.0/8", "fd00::/8"))

    assert all(map(rules.address_allowed, ("93.184.216.34", "2606:2800::1", "10.9.9.9", "fd00::1")))
    assert rules.address_allowed("::ffff:10.1.1.1")
    assert rules.address_allowed("64:ff9b::5db8:d822"), "what an IPv6 network has for IPv4"
    assert not rules.address_allowed("192.168.0.1")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://example.org/a?b#c", None),
        ("https://example.org", None),
        ("http://other.test/", "permission_denied"),
        ("file:///etc/passwd", "unsupported_url"),
        ("javascript:alert(1)", "unsupported_url"),
        ("data:text/html,x", "unsupported_url"),
        ("view-source:http://example.org", "unsupported_url"),
        ("about:blank", "unsupported_url"),
        ("example.org", "unsupported_url"),
        ("http://", "unsupported_url"),
        ("http://u@example.org/", "unsupported_url"),
        ("http://example.org:99999/", "unsupported_url"),
        ("http://[::1", "unsupported_url"),
    ],
)
def test_urls(url: str, code: str | None) -> None:
    rules = WebRules(allow=("example.org",))
    if code is None:
        check_url(url, rules)
        return
    with pytest.raises(WebUseFailed) as failed:
        check_url(url, rules)
    assert code == failed.value.code


def test_what_is_kept_of_a_url_holds_nothing_that_was_typed() -> None:
    assert "http://a.test/p" == without_query("http://a.test/p?q=canary#canary")


@pytest.mark.parametrize("entry", ["http://a.test", "a.test/path", "*.*", "a b", "", "a.test:x"])
def test_an_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValidationError):
        Web(allow=[entry])


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises((ValidationError, InvalidInput)):
        Web(networks=["10.0.0.0/99"])
