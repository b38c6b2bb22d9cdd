"""Windows: a browser context each, registered by an exact id before anything else happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

import structlog
from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.bridge.chromium import Chromium, Profile
from mulligan.tools.web_use.bridge.proxy import EgressProxy, Resolve
from mulligan.tools.web_use.bridge.receipts import Records, View
from mulligan.tools.web_use.bridge.tab import Tab, bounded
from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["Window", "Windows"]

MOST_MADE = 100
"""Windows that were made for callers."""
MOST_PAGES = 100
"""Of one window: runs come to their ends without closing theirs."""
ADOPT_S = 10.0
RESTORE_S = 30.0
"""How long one old view may take to come back."""

_log = structlog.get_logger(__name__)


class Window:
    """
    A window: its pages, and its own way out. `kept` windows get their pages back after a restart.
    It needs no Chromium until a page is opened.
    """

    def __init__(
        self, window_id: str, chromium: Chromium, records: Records, resolve: Resolve, *, kept: bool
    ) -> None:
        self.id = window_id
        self.kept = kept
        self.tabs: dict[str, Tab] = {}
        self.under_way: dict[str, WebRules] = {}
        """the rules of commands that are at it now, by their ids"""
        self.proxy = EgressProxy(self._rules, resolve)
        self._chromium = chromium
        self._records = records
        self._profile: Profile | None = None
        self._making = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._returning: list[View] = []
        """old views that are not there yet, and would be again after another restart"""
        self._stored: list[View] | None = None
        self._adopted = asyncio.Event()

    def _rules(self) -> list[WebRules]:
        """By what rules requests may leave: those of its pages and of who is at work."""
        return [*(tab.rules for tab in self.live()), *self.under_way.values()]

    def live(self) -> list[Tab]:
        """Its pages that are there, the oldest first."""
        return [tab for tab in self.tabs.values() if not tab.gone]

    async def open(self, rules: WebRules) -> Tab:
        """An empty page behind all others; where there are too many, one that is idle gives way."""
        self._make_room()
        profile = await self._ready()
        try:
            target = await profile.open()
            async with asyncio.timeout(ADOPT_S):
                while True:
                    for tab in self.live():
                        if tab.target == target:
                            tab.rules = rules
                            return tab
                    self._adopted.clear()
                    await self._adopted.wait()
        except (PlaywrightError, TimeoutError):
            raise WebUseFailed("backend_action_failed", "Chromium opened no page") from None

    def _make_room(self) -> None:
        idle = sorted((tab for tab in self.live() if tab.busy is None), key=lambda tab: tab.used_s)
        for tab in idle[: max(len(self.live()) + 1 - MOST_PAGES, 0)]:
            _log.info("page_closed", window=self.id, why="the window has too many")
            self._start(self.close_tab(tab))

    async def close_tab(self, tab: Tab) -> None:
        """Close a page, whatever state it is in."""
        tab.gone = True
        self.tabs.pop(tab.id, None)
        await bounded(tab.page.close(), 5.0)

    def keep_views(self) -> None:
        """Store what it shows, for the next start."""
        if self.kept:
            views = [
                View(self.id, tab.page.url, tab.rules)
                for tab in self.live()
                if tab.page.url.startswith("http")
            ]
            views += self._returning
            if views != self._stored:
                self._records.keep_views(self.id, views)
                self._stored = views

    def restore(self) -> None:
        """Begin to open its old views, each by itself: one that hangs holds up nothing."""
        self._returning = self._records.views(self.id)
        for view in self._returning:
            self._start(self._restore(view))

    async def _restore(self, view: View) -> None:
        tab = None
        try:
            tab = await self.open(view.rules)
            await tab.page.goto(view.url, wait_until="commit", timeout=RESTORE_S * 1_000)
        except (PlaywrightError, WebUseFailed) as error:
            _log.info("not_restored", window=self.id, error=type(error).__name__)
            if tab is not None:
                await self.close_tab(tab)
        if view in self._returning:
            self._returning.remove(view)

    def lost(self) -> None:
        """Its Chromium is gone, and its pages with it."""
        for tab in self.tabs.values():
            tab.ended()
        self.tabs.clear()
        self._profile = None

    async def close(self) -> None:
        """Let go of its pages and its port."""
        if self._profile is not None:
            await bounded(self._profile.context.close(), 5.0)
        await self.leave()

    async def leave(self) -> None:
        """Let go of its port; its pages end with Chromium."""
        for task in self._tasks:
            task.cancel()
        await self.proxy.close()

    async def _ready(self) -> Profile:
        async with self._making:
            if self._profile is None:
                if self.proxy.closed:
                    await self.proxy.start()
                profile = await self._chromium.profile(self.proxy.port)
                self._listen(profile.context)
                self._profile = profile
        return self._profile

    def _listen(self, context: BrowserContext) -> None:
        context.on("page", self._on_page)

    def _on_page(self, page: Page) -> None:
        self._start(self._adopt(page))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _adopt(self, page: Page) -> None:
        """
        Take a page in, one that another page has opened with the rules of that one: such a one is
        closed where there are too many, since a site must not take the room of others.
        """
        with contextlib.suppress(PlaywrightError):
            tab = await Tab.of(page)
            opener = await page.opener()
            if opener is not None and len(self.live()) >= MOST_PAGES:
                await bounded(page.close(), 5.0)
                return
            for other in self.live():
                if opener is not None and other.page is opener:
                    tab.rules = other.rules
                    other.opened.append(tab)
            self.tabs[tab.id] = tab
            page.on("close", lambda _: self._forget(tab))
            self._adopted.set()

    def _forget(self, tab: Tab) -> None:
        self.tabs.pop(tab.id, None)


class Windows:
    """All windows of this bridge. To register one selects nothing and opens nothing."""

    def __init__(self, chromium: Chromium, records: Records, resolve: Resolve) -> None:
        self._chromium = chromium
        self._records = records
        self._resolve = resolve
        self._windows: dict[str, Window] = {}
        self._made: OrderedDict[str, None] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def register(self, window_id: str, *, kept: bool = False) -> Window:
        """The window of that exact id; the same one, unchanged, if it is registered already."""
        if window_id not in self._windows:
            self._windows[window_id] = Window(
                window_id, self._chromium, self._records, self._resolve, kept=kept
            )
            _log.info("window_registered", window=window_id)
        return self._windows[window_id]

    def made(self, window_id: str) -> Window:
        """A window for one caller. Of too many, the one that was used least lately is closed."""
        self._made[window_id] = None
        self._made.move_to_end(window_id)
        for old in list(self._made)[: max(len(self._made) - MOST_MADE, 0)]:
            self.leave(old)
        return self.register(window_id)

    def leave(self, window_id: str) -> None:
        """Close a window that was made for a caller, if no command is at it."""
        window = self._windows.get(window_id)
        if window_id not in self._made or window is None or window.under_way:
            return
        del self._made[window_id]
        task = asyncio.ensure_future(self._windows.pop(window_id).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def get(self, window_id: str) -> Window | None:
        """A window, if it is registered."""
        return self._windows.get(window_id)

    def all(self) -> list[Window]:
        """Every window."""
        return list(self._windows.values())

    def restore(self) -> None:
        """Begin to bring back old views; nobody waits for it."""
        for window in self.all():
            if window.kept:
                window.restore()

    def lost(self) -> None:
        """Chromium has died: the windows stay, their pages are gone, old views come back."""
        for window in self.all():
            window.lost()
        self.restore()

    def keep_views(self) -> None:
        """Store what all of them show."""
        for window in self.all():
            window.keep_views()

    async def close(self) -> None:
        """Let go of all windows; their pages end with Chromium."""
        await asyncio.gather(*(window.leave() for window in self.all()))
