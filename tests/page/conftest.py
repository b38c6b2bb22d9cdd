"""One server, one worker and one Chromium for all tests of a module."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mulligan.client import Client
from mulligan.events.envelope import NewEvent
from mulligan.events.store import Append, AsNew
from mulligan.projections.run import fold
from mulligan.settings import load_settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess
from mulligan.tools.web_use.executable import find_chromium
from mulligan.web.access import Access
from tests.histories.test_recorded import history
from tests.http.conftest import Api, serving

ASK = Path(__file__).parents[1] / "projects" / "probe" / "ask.yaml"
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser. It ends with its module: its driver's loop would be in the way of other tests."""
    if os.environ.get("BROWSER_TESTS") == "no":
        pytest.skip("left out by BROWSER_TESTS=no")
    executable = find_chromium(load_settings().browser_executable)
    root = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=root)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def api(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that asks for no token."""
    with serving(server, tmp_path_factory.mktemp("page"), Access(), ASK) as api:
        yield api


Opens = Callable[..., "Page"]


@contextmanager
def pages(chromium: Browser) -> Iterator[Opens]:
    """Opens pages, each somebody's own, in which nothing may go wrong unnoticed."""
    wrong: list[str] = []
    contexts = []

    def opened(url: str, scheme: str = "light") -> Page:
        context = chromium.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.goto(url)
        page.locator("h1").wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [] == [one for one in wrong if "Failed to load resource" not in one]


@pytest.fixture
def opens(api: Api, chromium: Browser) -> Iterator[Opens]:
    """Opens a view of the shared server by its address in the page."""
    with pages(chromium) as opened:
        yield lambda view="", **options: opened(f"{api.url}/#/{view}", **options)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    """What the worker asks; each test gives it a script."""
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture(scope="module")
def worker(
    api: Api, model: ScriptedModel, server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """It works every run of the shared server from here on."""
    record = tmp_path_factory.mktemp("worker") / "record.txt"
    record.touch()
    environment = {"PROBE_RECORD": str(record)}
    with WorkerProcess(server.url, api_base=model.url, environment=environment) as worker:
        yield worker


def replay(client: Client, name: str, before: str = "") -> str:
    """A run that nobody works, with the events of a recorded one (up to one of that type)."""
    events = history(name)
    types = [one.type for one in events]
    kept = events[: types.index(before)] if before else events
    run = f"{name}-{secrets.token_hex(3)}"
    new = tuple(NewEvent(one.data, one.node, one.attempt) for one in kept)
    client.store.append(
        Append(
            run=run,
            op=secrets.token_hex(8),
            writer=AsNew(secrets.token_hex(32)),
            events=new,
            phase="closed" if fold(run, kept).ended else None,
        )
    )
    return run


@pytest.fixture
def recorded(api: Api) -> Callable[..., str]:
    """Makes such a run."""
    return lambda name, before="": replay(api.client, name, before)


def press_until(page: Page, name: str, role: str = "", most: int = 80) -> None:
    """Tab on until what has that accessible name has the focus."""
    seen = []
    for _ in range(most):
        page.keyboard.press("Tab")
        found = focused(page)
        seen.append(found)
        if found == (role or found[0], name):
            return
    raise AssertionError(f"no {role} {name!r} among what the keyboard reaches: {seen}")


def focused(page: Page) -> tuple[str, str]:
    """Role and name of what has the focus, as assistive technology is told."""
    session = page.context.new_cdp_session(page)
    try:
        handle = session.send("Runtime.evaluate", {"expression": "document.activeElement"})
        tree: Any = session.send(
            "Accessibility.getPartialAXTree",
            {"objectId": handle["result"]["objectId"], "fetchRelatives": False},
        )
    finally:
        with suppress(Exception):
            session.detach()
    node = tree["nodes"][0]
    return node["role"]["value"], node.get("name", {}).get("value", "")
