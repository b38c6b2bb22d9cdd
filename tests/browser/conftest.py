"""One site, and one bridge with a real Chromium, for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.tools.web_use.executable import find_chromium
from tests.browser.bridge_process import BridgeProcess, Browsing
from tests.browser.site import Site


@pytest.fixture(scope="session")
def chromium() -> None:
    """A Chromium. Where there is none, tests fail, unless somebody left them out by name."""
    if os.environ.get("BROWSER_TESTS") == "no":
        pytest.skip("left out by BROWSER_TESTS=no")
    find_chromium(None)


@pytest.fixture(scope="session")
def one_site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def site(one_site: Site) -> Iterator[Site]:
    """The site, with nothing received yet."""
    one_site.reset()
    yield one_site
    one_site.hold.set()


@pytest.fixture(scope="session")
def bridge(chromium: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    """A bridge with three windows."""
    started = BridgeProcess(tmp_path_factory.mktemp("bridge"), "main", "mine", "other")
    yield started
    started.stop()


@pytest.fixture
def web(bridge: BridgeProcess, request: pytest.FixtureRequest) -> Iterator[Browsing]:
    """Somebody with a window of their own, which is empty."""
    caller = bridge.caller(request.node.name)
    yield caller
    caller.close_all()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
