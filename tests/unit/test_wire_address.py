"""URLs of servers mean to our own connection what they mean to redis-py."""

from __future__ import annotations

import pytest
from redis.connection import parse_url

from mulligan.wire_address import Address, address_of


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://host",
        "redis://host:7000/3",
        "redis://host/3?db=4",
        "redis://host/no-number",
        "redis://:secret@host",
        "redis://user:s%40cret@host:1",
        "redis://user@host",
        "redis://host?username=u&password=p",
        "redis://user:one@host?password=two",
        "redis://[::1]:7000/1",
        "rediss://host:7000",
        "unix:///tmp/s",
        "unix:///tmp/a%20b?db=2",
        "unix://user:secret@/tmp/s",
    ],
)
def test_a_url_is_read_as_redis_py_reads_it(url: str) -> None:
    theirs = parse_url(url)

    ours = address_of(url)

    assert ours is not None
    if ours.path is None:
        assert (ours.host, ours.port) == (theirs.get("host", "localhost"), theirs.get("port", 6379))
    assert ours.path == theirs.get("path")
    assert ours.db == theirs.get("db", 0)
    assert (ours.username, ours.password) == (theirs.get("username"), theirs.get("password"))
    assert ours.tls == url.startswith("rediss:")


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://host",
        "redis://host?health_check_interval=3",
        "rediss://host?ssl_cert_reqs=none",
        "unix://",
        "http://host",
    ],
)
def test_what_asks_for_more_is_left_to_redis_py(url: str) -> None:
    assert address_of(url) is None


@pytest.mark.parametrize("url", ["redis://host:port", "redis://host?db=first", "redis://h:70000"])
def test_no_port_and_no_database_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match=r"port|Port|int"):
        address_of(url)


def test_a_password_is_shown_nowhere() -> None:
    assert "canary" not in repr(Address(username="canary-user", password="canary"))
