"""web7: the way out of a window sees every hop, resolves once, and goes where it looked."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.bridge.proxy import FAILED, MARK, EgressProxy
from tests.browser.site import Site

LOCAL = WebRules(allow=("site.test", "moves.test"), networks=("127.0.0.0/8",))
PUBLIC = WebRules(allow=("*",))


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


class Names:
    """A name server whose answers change from question to question."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    async def __call__(self, host: str, port: int) -> list[str]:
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


@contextmanager
def proxied(names: Names, *rules: WebRules) -> Iterator[EgressProxy]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    proxy = EgressProxy(lambda: rules, names)
    asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(5)
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


def ask(proxy: EgressProxy, url: str, method: str = "GET") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    connection.request(method, url, body="week=1" if method == "POST" else None)
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_what_is_allowed_arrives_as_it_was_sent(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    with proxied(Names("127.0.0.1"), LOCAL) as proxy:
        answer = ask(proxy, f"http://site.test:{port}/echo?q=a%20b")
        posted = ask(proxy, f"http://site.test:{port}/save", "POST")

    assert (200, True) == (answer.status, b"<p>a b</p>" in answer.body)  # type: ignore[attr-defined]
    assert "close" == answer.headers["Connection"]
    assert (200, [{"week": "1"}]) == (posted.status, site.saved)


def test_a_name_that_leads_elsewhere_the_next_time_gets_nowhere(site: Site) -> None:
    """DNS rebinding: a name is looked up once a request, and what was looked at is gone to."""
    url = f"http://moves.test:{site.url.rpartition(':')[2]}/form"
    with proxied(Names("127.0.0.1", "169.254.169.254", "10.0.0.1", "::1"), LOCAL) as proxy:
        answers = [ask(proxy, url) for _ in range(4)]

    assert [200, 403, 403, 403] == [answer.status for answer in answers]
    assert [False, True, True, True] == [MARK in answer.headers for answer in answers]
    assert [("GET", "/form")] == site.received


def test_a_rule_must_allow_host_and_network_together(site: Site) -> None:
    """Another run's networks do not help a host that only this one's rules name."""
    port = site.url.rpartition(":")[2]
    with proxied(
        Names("127.0.0.1"), PUBLIC, WebRules(allow=("x.test",), networks=("127.0.0.0/8",))
    ) as proxy:
        assert 403 == ask(proxy, f"http://site.test:{port}/form").status
        assert 200 == ask(proxy, f"http://x.test:{port}/form").status


@pytest.mark.parametrize("target", ["ftp://site.test/", "/form", "file:///etc/passwd"])
def test_only_http_goes_out(target: str) -> None:
    with proxied(Names("127.0.0.1"), LOCAL) as proxy:
        assert 403 == ask(proxy, target).status


def test_tunnels_are_held_to_the_same_rules(site: Site) -> None:
    port = int(site.url.rpartition(":")[2])
    with proxied(Names("127.0.0.1"), LOCAL) as proxy:
        for host, status in (("site.test", 200), ("other.test", 403)):
            connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
            connection.set_tunnel(host, port)
            if status == 403:
                with pytest.raises(OSError, match="403"):
                    connection.request("GET", "/form")
            else:
                connection.request("GET", "/form")
                assert status == connection.getresponse().status
            connection.close()


def test_a_host_that_does_not_answer_is_no_refusal(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    site.close()
    with proxied(Names("127.0.0.1"), LOCAL) as proxy:
        answer = ask(proxy, f"http://site.test:{port}/")

    assert (502, True, False) == (answer.status, FAILED in answer.headers, MARK in answer.headers)
