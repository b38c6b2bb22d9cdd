"""`web_use` over HTTP, with a real Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.web.access import Access
from mulligan.web.catalogue import Catalogue
from tests.browser.bridge_process import BridgeProcess
from tests.browser.site import Site
from tests.http.conftest import Api

Use = Callable[..., Any]


@pytest.fixture(scope="module")
def use(server: ValkeyServer, bridge: BridgeProcess) -> Iterator[Use]:
    """One command, as anybody would send it; what was answered, which is always with 200."""
    settings = Settings(
        redis_url=server.url,
        data_dir=bridge.folder,
        browser_allow=("127.0.0.1",),
        browser_networks=("127.0.0.0/8",),
    )
    with Client(settings) as client:
        api = Api(client, Access(), Catalogue())
        yield lambda **body: api.post("/api/web-use", body)
        api.close()


def test_from_an_empty_inventory_a_page_is_listed_and_observed(use: Use, site: Site) -> None:
    """web8: title and observation id, and nothing is submitted."""
    listed = use(command="list_pages")
    assert (listed["is_error"], listed["value"]["pages"]) == (False, [])
    session = listed["session"]

    seen = use(session=session, command="observe", url=f"{site.url}/form")
    assert (seen["is_error"], seen["session"]) == (False, session)
    assert seen["value"]["title"] == "Form"
    assert seen["value"]["observation"]
    (page,) = use(session=session, command="list_pages")["value"]["pages"]
    assert page["title"] == "Form"
    assert use(session=session, command="close", page=page["page"])["is_error"] is False
    assert [request for request in site.received if request[0] != "GET"] == []


def test_a_command_that_fails_stays_an_error(use: Use, site: Site) -> None:
    """web8: though the request around it was carried out."""
    for body, code in (
        ({"command": "observe", "page": "nonsense"}, "page_context_stale"),
        ({"command": "observe", "url": "http://example.org/"}, "permission_denied"),
        ({"command": "observe", "url": "file:///etc/passwd"}, "unsupported_url"),
        ({"command": "open"}, "invalid_command"),
        ({}, "invalid_command"),
        ({"command": "list_pages", "window": "no such"}, "desktop_unavailable"),
    ):
        answered = use(**body)
        assert (answered["is_error"], answered["code"]) == (True, code), answered
        assert answered["message"]
        assert answered["value"] is None


def test_sessions_see_their_own_pages_only(use: Use, site: Site) -> None:
    """web3: a window is made for each, and a token is of no use to another."""
    mine = use(command="observe", url=f"{site.url}/form")
    theirs = use(command="list_pages")
    assert theirs["value"]["pages"] == []
    stolen = use(session=theirs["session"], command="observe", page=mine["value"]["page"])
    assert (stolen["is_error"], stolen["code"]) == (True, "page_context_owner_mismatch")
    named = use(
        session=theirs["session"],
        window=use(session=mine["session"], command="list_pages")["value"]["window"],
        command="list_pages",
    )
    assert named["code"] == "permission_denied"


def test_an_act_that_is_sent_again_is_its_receipt(use: Use, site: Site) -> None:
    """web9: the same call is the same act, and the site hears of it once."""
    seen = use(command="observe", url=f"{site.url}/form")
    value = seen["value"]
    save = value["snapshot"].partition('button "Save"')[2].partition("[ref=")[2].partition("]")[0]
    click = {
        "session": seen["session"],
        "call": "click-1",
        "command": "act",
        "action": "click",
        "page": value["page"],
        "observation": value["observation"],
        "element": save,
    }
    first, again = use(**click), use(**click)
    assert first["is_error"] is False, first
    assert again["value"]["outcome"] == first["value"]["outcome"]
    assert len([request for request in site.received if request[0] == "POST"]) == 1
