"""web3: a window holds so many pages at most, and no site takes the room of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.testing.waiting import until
from mulligan.tools.web_use.bridge import window
from mulligan.tools.web_use.bridge.holdings import Configuration
from mulligan.tools.web_use.bridge.service import BridgeService
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.executable import find_chromium
from tests.browser.bridge_process import RULES, Browsing, saved
from tests.browser.site import Site


class BridgeHere:
    """A bridge in this process, each use of which is a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "browser.sock"
        self._runner = asyncio.Runner()
        self._service = self._runner.run(self._start(folder))

    async def _start(self, folder: Path) -> BridgeService:
        configuration = Configuration(folder=folder)
        service = BridgeService(self.socket, find_chromium(None), ["main"], configuration)
        await service.start()
        return service

    def use(self, work: Any, *given: Any) -> Any:
        """What `work` comes to while the bridge serves."""
        return self._runner.run(_in_thread(work, *given))

    @property
    def pages_open(self) -> int:
        """What Chromium itself has open."""
        (main,) = self._service._windows.all()
        assert main._profile is not None
        return len(main._profile.context.pages)

    def close(self) -> None:
        self._runner.run(self._service.close())
        self._runner.close()


async def _in_thread(work: Any, *given: Any) -> Any:
    return await asyncio.to_thread(work, *given)


@pytest.fixture
def small(chromium: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BridgeHere]:
    """A bridge whose windows hold three pages."""
    monkeypatch.setattr(window, "MOST_PAGES", 3)
    here = BridgeHere(tmp_path)
    yield here
    here.close()


def test_of_too_many_pages_the_one_used_least_lately_is_closed(
    small: BridgeHere, site: Site
) -> None:
    small.use(_many_pages, small, site)


def _many_pages(bridge: BridgeHere, site: Site) -> None:
    def run(name: str) -> Browsing:
        caller = Caller(owner=f"{name}:a", action="", run=name, window="main", rules=RULES)
        return Browsing(bridge, caller)

    first, second, third, fourth = (run(name) for name in ("one", "two", "three", "four"))
    first.observe(f"{site.url}/form")
    second.observe(f"{site.url}/list")
    third.observe(f"{site.url}/popups")
    first.look()

    fourth.observe(f"{site.url}/")

    assert "page_target_unavailable" == second.fails(command="observe", page=second.page).code
    assert ["Form", "Popups", "Home"] == titles(fourth)
    third.do(**third.act("click", 'button "Go"', evidence=saved("Opened")))
    until(lambda: 3 == bridge.pages_open, 10.0)
    assert ["Form", "Popups", "Home"] == titles(fourth)
    assert "Form" == first.look()["title"], "nobody's page gave way to a popup"


def titles(web: Browsing) -> list[str]:
    return [page["title"] for page in web.do(command="list_pages")["pages"]]
