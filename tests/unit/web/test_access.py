"""Who is let in, decided on headers alone."""

from __future__ import annotations

import pytest

from mulligan.web.access import COOKIE, Access, is_loopback

TOKEN = "a" * 40
OTHER = "b" * 40
OURS = {"host": "localhost:8810"}


def refused(access: Access, path: str = "/runs", **headers: str) -> str | None:
    given = OURS | {name.replace("_", "-"): value for name, value in headers.items()}
    refusal = access.refusal(path, given)
    return refusal.code if refusal is not None else None


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8810", "127.0.0.1:8810", "[::1]:8810", "10.1.2.3", "Ours.example:1"],
)
def test_names_of_ours_and_addresses_are_let_in(host: str) -> None:
    assert refused(Access(hosts=["ours.example"]), host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8810", "localhost.evil.example", "", "[", "a b", "ours"),
        *("evil@localhost", "evil:x@localhost:8810", "localhost/evil", "localhost?evil"),
        *("localhost#evil", "localhost\\evil", "localhost:evil", "[localhost]", "localhost\n"),
    ],
)
def test_a_foreign_name_that_leads_here_is_refused(host: str) -> None:
    """DNS rebinding: the page of another site under whose name this server answers."""
    assert refused(Access(hosts=["ours.example"]), host=host) == "foreign_host"


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://localhost:8811", "http://localhost", "null", "https://[", "x"],
)
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    assert refused(Access(), origin=origin) == "foreign_origin"


def test_our_own_page_is_let_in() -> None:
    assert refused(Access(), origin="http://localhost:8810", sec_fetch_site="same-origin") is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_other_sites_load_without_an_origin_is_refused(site: str) -> None:
    """An image or a script of another page, or one of another port of this machine."""
    assert refused(Access(), sec_fetch_site=site, sec_fetch_mode="no-cors") == "foreign_origin"
    assert refused(Access(), sec_fetch_site=site, sec_fetch_mode="navigate") is None, "a link"


def test_a_token_is_asked_for_where_there_is_one() -> None:
    access = Access([TOKEN, OTHER])
    assert refused(access) == "token_missing"
    assert refused(access, authorization=f"Bearer {TOKEN[:-1]}") == "token_missing"
    assert refused(access, authorization=f"Basic {TOKEN}") == "token_missing"
    assert refused(access, authorization="Bearer \udcff") == "token_missing"
    assert refused(access, authorization=f"Bearer {TOKEN}") is None
    assert refused(access, authorization=f"bearer {OTHER}") is None
    assert refused(Access()) is None


def test_a_cookie_stands_for_a_token_and_does_not_hold_it() -> None:
    access = Access([TOKEN])
    cookie = access.session(TOKEN)
    assert cookie is not None
    assert TOKEN not in cookie
    assert refused(access, cookie=f"other=1; {COOKIE}={cookie}") is None
    assert refused(access, cookie=f"{COOKIE}={cookie[:-1]}") == "token_missing"
    assert refused(access, cookie=f"{COOKIE}=") == "token_missing"
    assert refused(access, cookie="=;;\x00,") == "token_missing"
    assert access.session(OTHER) is None
    assert refused(Access([OTHER]), cookie=f"{COOKIE}={cookie}") == "token_missing"


@pytest.mark.parametrize("other", ['seen={"a": 1}', "list[0]=1", "=", "a b", 'open="', "ü=ü"])
def test_cookies_of_other_servers_are_not_in_the_way(other: str) -> None:
    """Cookies know no ports: a browser sends those of all servers on this machine."""
    access = Access([TOKEN])
    ours = f"{COOKIE}={access.session(TOKEN)}"

    assert refused(access, cookie=f"{other}; {ours}") is None
    assert refused(access, cookie=f"{ours}; {other}") is None
    assert refused(access, cookie=f"{other}; x{ours}") == "token_missing"


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/session", "/page/app.js"])
def test_what_shows_nothing_needs_no_token(path: str) -> None:
    access = Access([TOKEN])
    assert refused(access, path) is None
    assert refused(access, path, host="evil.example") == "foreign_host"


@pytest.mark.parametrize("path", ["/runs", "/metrics", "/openapi.json", "/page", "/healthz/"])
def test_everything_else_does(path: str) -> None:
    assert refused(Access([TOKEN]), path) == "token_missing"


def test_what_only_this_machine_can_reach() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost")] == [
        True,
        True,
        True,
        True,
    ]
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "name", "")] == [
        False,
        False,
        False,
        False,
        False,
    ]
