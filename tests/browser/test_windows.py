"""Whose pages are whose, and what a bridge that begins again does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mulligan.testing.waiting import until
from mulligan.tools.web_use.client import BridgeClient, Question, flat
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import parse
from tests.browser.bridge_process import BridgeProcess, Browsing, saved
from tests.browser.site import Site


@pytest.fixture
def own_bridge(chromium: None, tmp_path: Path) -> Iterator[BridgeProcess]:
    """A bridge that may be killed."""
    started = BridgeProcess(tmp_path / "own", "main", "main", "other")
    yield started
    started.stop()


def test_another_windows_pages_never_appear(bridge: BridgeProcess, site: Site) -> None:
    """web3: not without a window, not by its name alone, not by a token; a binding opens them."""
    mine = bridge.run("run-m", "mine")
    other = bridge.run("run-o", "other")
    mine.observe(f"{site.url}/form")
    token = mine.page

    assert [] == other.do(command="list_pages")["pages"]
    other.page = token
    assert "page_context_owner_mismatch" == other.fails(command="observe", page=token).code
    assert "permission_denied" == bridge.run("run-n", None).fails(command="list_pages").code
    gone = bridge.run("run-n", "min").fails(command="list_pages")
    assert ("desktop_unavailable", True) == (gone.code, "retry with list_pages" in str(gone))
    made = bridge.caller("made").do(command="list_pages")["window"]
    thief = bridge.caller("thief", window=made)
    assert "permission_denied" == thief.fails(command="list_pages").code
    with BridgeClient(bridge.socket) as client:
        client.bind("run-o", "mine")
        with pytest.raises(WebUseFailed, match="not registered"):
            client.bind("run-o", "nowhere")
    assert ["Form"] == [page["title"] for page in other.do(command="list_pages")["pages"]]
    assert [] == bridge.run("run-p", "other").do(command="list_pages")["pages"]


def test_views_that_hang_hold_up_nobody(own_bridge: BridgeProcess, site: Site) -> None:
    """web2: the first page of a workflow opens while old views are still being brought back."""
    web = own_bridge.run("run-1")
    token = web.observe(f"{site.url}/form")["page"]
    site.hold.set()
    web.observe(f"{site.url}/held")
    own_bridge.kill()
    site.reset()
    own_bridge.start()

    again = own_bridge.run("run-2")
    assert "Home" == again.observe(f"{site.url}/")["title"]
    assert "page_context_stale" == web.fails(command="observe", page=token).code
    until(lambda: ("GET", "/held") in site.received, 20)
    site.hold.set()
    titles = set()

    def all_back() -> bool:
        titles.update(page["title"] for page in again.do(command="list_pages")["pages"])
        return {"Home", "Form", "Held"} <= titles

    until(all_back, 20)
    assert [] == own_bridge.run("run-3", "other").do(command="list_pages")["pages"]


def test_chromium_may_die_and_comes_back(own_bridge: BridgeProcess, site: Site) -> None:
    """web2: windows stay registered; pages of before are gone, and tokens say so."""
    web = own_bridge.run("run-1", "other")
    token = web.observe(f"{site.url}/form")["page"]
    own_bridge.kill_chromium()
    until(lambda: "chromium_gone" in own_bridge.log.read_text(), 20)

    assert "page_target_unavailable" == web.fails(command="observe", page=token).code
    assert "Home" == web.observe(f"{site.url}/")["title"]


@pytest.mark.parametrize(("point", "most"), [("act.before", 0), ("act.after", 1)])
def test_a_bridge_that_dies_over_an_act_does_not_do_it_again(
    own_bridge: BridgeProcess, site: Site, point: str, most: int
) -> None:
    """web9: the intent is on disk before the input, so the outcome is unknown for good."""
    own_bridge.kill()
    own_bridge.start(MULLIGAN_CRASH_AT=f"{point}:kill")
    web = own_bridge.caller("run-1")
    web.observe(f"{site.url}/form")
    click = web.act("click", 'button "Save"', evidence=saved("Report saved"))
    with pytest.raises(WebUseFailed) as died:
        web.do("run-1:act", **click)
    own_bridge.process.wait(10)
    own_bridge.start()

    with pytest.raises(WebUseFailed) as again:
        web.do("run-1:act", **click)
    with BridgeClient(own_bridge.socket) as client:
        receipt = client.settle(web.as_caller("run-1:act"))

    assert (True, True) == (died.value.unknown, again.value.unknown)
    assert "backend_action_failed" == died.value.code == again.value.code
    assert receipt is not None
    assert "unknown" == receipt.outcome
    assert most >= len(site.saved), "the input may have gone down with Chromium"


def test_an_act_that_was_settled_before_it_came_is_not_begun(web: Browsing, site: Site) -> None:
    """web9: a worker that was only slow can't click after its run was told that it had not."""
    web.observe(f"{site.url}/form")
    click = web.act("click", 'button "Save"', evidence=saved("Report saved"))
    with BridgeClient(web.bridge.socket) as slow, BridgeClient(web.bridge.socket) as asking:
        slow._connected()
        until(lambda: asking.settle(web.as_caller("slow")) is None, 5)
        with pytest.raises(WebUseFailed) as failed:
            slow.call(click, web.as_caller("slow"))

    assert ("cancelled", []) == (failed.value.code, site.saved)


def test_who_has_hung_up_before_the_click_gets_none(web: Browsing, site: Site) -> None:
    """web6: nobody waits for it, as when a worker has lost its lease, so nothing is dispatched."""
    web.observe(f"{site.url}/late")
    command = flat(parse(web.act("click", 'button "Save"')))
    asked = Question(op="command", caller=web.as_caller("hung"), command=command)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(web.bridge.socket))
        connection.sendall(msgspec.json.encode(asked) + b"\n")
        until(lambda: web.bridge.caller("x").do(command="list_pages"), 5)
    site.hold.set()

    with BridgeClient(web.bridge.socket) as asking:
        assert asking.settle(web.as_caller("hung")) is None
    assert [] == site.saved
    page = web.do(command="list_pages")["pages"][0]["page"]
    web.do(
        command="verify", page=page, conditions=[{"condition": "title_contains", "value": "Lat"}]
    )


def command(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`mulligan browser …` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "mulligan.cli", "browser", *arguments],
        env={**os.environ, "MULLIGAN_DATA_DIR": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_what_can_not_be_used_is_refused_in_words(bridge: BridgeProcess, tmp_path: Path) -> None:
    """A second bridge on a socket, nobody to bind with, a secret without a value, a bad window."""
    for folder, arguments, variables, code, told in (
        (bridge.folder, (), {}, 5, "another `mulligan browser`"),
        (tmp_path, ("--bind", "run", "main"), {}, 5, "start `mulligan browser`"),
        (tmp_path, (), {"MULLIGAN_BROWSER_SECRETS": '{"NO_SUCH": ["a.test"]}'}, 2, "NO_SUCH"),
        (tmp_path, ("--window", "made-1"), {}, 2, "made-"),
        (tmp_path, (), {"MULLIGAN_BROWSER_EXECUTABLE": "/no/chromium"}, 5, "/no/chromium"),
    ):
        ended = command(folder, *arguments, **variables)
        assert (code, True) == (ended.returncode, told in ended.stderr), ended.stderr
    assert [] == bridge.caller("still").do(command="list_pages")["pages"]
