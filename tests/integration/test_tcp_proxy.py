"""The proxy fails as networks do, and loses no more than it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from mulligan.testing.tcp_proxy import TcpProxy
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server


@pytest.fixture
def proxy(server: Any) -> Iterator[TcpProxy]:
    with TcpProxy(server.url) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: TcpProxy) -> Iterator[redis.Redis]:
    """A client behind it that never repeats a command by itself."""
    never = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    with redis.Redis.from_url(proxy.url, retry=never, socket_timeout=5) as client:
        yield client


@pytest.fixture
def direct(server: Any) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def test_what_is_said_passes_both_ways(through: redis.Redis) -> None:
    large = b"x" * 300_000
    through.set("large", large)

    with through.pipeline(transaction=False) as several:
        several.get("large").get("missing").strlen("large")

        assert several.execute() == [large, None, len(large)]


def test_a_write_whose_reply_is_lost_was_carried_out(
    proxy: TcpProxy, through: redis.Redis, direct: redis.Redis
) -> None:
    lost = proxy.lose_reply(lambda command: b"INCR" in command, arrival=2)

    assert through.incr("count") == 1
    with pytest.raises(redis.ConnectionError):
        through.incr("count")

    assert lost.happened
    assert direct.get("count") == b"2"
    assert through.incr("count") == 3, "one reply, and no more"


def test_a_cut_breaks_what_is_open_and_takes_what_comes(
    proxy: TcpProxy, through: redis.Redis
) -> None:
    listener = through.pubsub()
    listener.subscribe("news")
    assert listener.parse_response() is not None

    assert proxy.cut() == 1
    with pytest.raises(redis.ConnectionError):
        listener.connection.read_response()
    assert through.ping()


def test_nobody_is_taken_while_it_refuses(proxy: TcpProxy, through: redis.Redis) -> None:
    proxy.refuse()

    with pytest.raises(redis.ConnectionError):
        through.ping()
    proxy.accept()
    assert through.ping()


def test_a_network_that_hangs_says_nothing_and_goes_on(
    proxy: TcpProxy, through: redis.Redis, direct: redis.Redis
) -> None:
    through.ping()
    proxy.swallow()
    told: list[int] = []
    waiting = threading.Thread(target=lambda: told.append(through.incr("held")))
    waiting.start()
    until(lambda: proxy.connections == 1, 5.0)
    assert direct.get("held") is None
    assert told == []

    proxy.accept()
    waiting.join(5.0)

    assert told == [1]


def test_a_server_that_is_down_is_a_connection_refused() -> None:
    with TcpProxy("redis://127.0.0.1:1/0") as proxy:
        never = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        client = redis.Redis.from_url(proxy.url, retry=never)
        with client, pytest.raises(redis.ConnectionError):
            client.ping()
