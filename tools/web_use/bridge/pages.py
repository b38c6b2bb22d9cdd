"""Who may use which window and page (WEB-3)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mulligan.tools.web_use.bridge.receipts import Records
from mulligan.tools.web_use.bridge.shown import Shown
from mulligan.tools.web_use.bridge.tab import Tab
from mulligan.tools.web_use.bridge.tokens import PageTokens
from mulligan.tools.web_use.bridge.window import Window, Windows
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.results import Page

__all__ = ["MADE", "Pages"]

MADE = "made-"
"""How ids of windows begin that were made for a caller, who alone may use them."""


class Pages:
    """The windows' pages, as callers may see and use them."""

    def __init__(self, windows: Windows, records: Records, shown: Shown) -> None:
        self._windows = windows
        self._records = records
        self._shown = shown
        self._tokens = PageTokens()

    def token(self, tab: Tab, caller: Caller) -> str:
        """A token by which the caller's owner may use a page once."""
        return self._tokens.issue(caller.owner, tab.id)

    async def told(self, tab: Tab, caller: Caller) -> Page:
        """A page as it is listed, with a token for the caller."""
        token = self.token(tab, caller)
        title = self._shown.title(await tab.title())
        return Page(page=token, url=self._shown.url(tab.page.url), title=title, state=tab.state)

    def find(self, page: str | None) -> Tab | None:
        """The page of that id, wherever it is, if it is still there."""
        for window in self._windows.all():
            tab = window.tabs.get(page or "")
            if tab is not None and not tab.gone:
                return tab
        return None

    def window_of(self, caller: Caller) -> Window:
        """The caller's own window: exactly the one it names, or one that is made for it."""
        made = _made(caller)
        if caller.window is None:
            if not caller.make_window:
                raise WebUseFailed(
                    "permission_denied",
                    "this run has no window of origin; ask for it with --origin-window",
                )
            return self._windows.made(made)
        if caller.window == made:
            return self._windows.made(made)
        if caller.window.startswith(MADE):
            raise WebUseFailed("permission_denied", "that window was made for somebody else")
        return self.registered(caller.window)

    def leave(self, caller: Caller) -> None:
        """Close the window that was made for the caller, if one was."""
        self._windows.leave(_made(caller))

    def registered(self, window_id: str) -> Window:
        """
        The window of that exact id.

        Raises WebUseFailed, `desktop_unavailable`.
        """
        window = self._windows.get(window_id)
        if window is None:
            raise WebUseFailed(
                "desktop_unavailable",
                "that window is not registered now; start `mulligan browser` with it, then retry "
                "with list_pages",
            )
        return window

    def authorised(self, caller: Caller, window: Window) -> list[Window]:
        """The caller's window, and those whose pages were opened to its run."""
        bound = self._records.bound(caller.run) if caller.run is not None else []
        others = [self._windows.get(one) for one in bound if one != window.id]
        return [window, *(one for one in others if one is not None)]

    def _page(self, token: str, caller: Caller, window: Window) -> Tab:
        """
        The page that a token stands for, the token not yet used up.

        Raises WebUseFailed by the token's rules, or where the page is gone.
        """
        page = self._tokens.page(token, caller.owner, caller.action)
        for one in self.authorised(caller, window):
            tab = one.tabs.get(page)
            if tab is not None and not tab.gone:
                return tab
        raise WebUseFailed(
            "page_target_unavailable", "the page is closed; list_pages shows which are"
        )

    @asynccontextmanager
    async def using(self, token: str, caller: Caller, window: Window) -> AsyncIterator[Tab]:
        """The page of a token, for this command alone; the token is used up."""
        tab = self._page(token, caller, window)
        if tab.busy is not None:
            raise WebUseFailed("page_in_use", "another command is at this page; retry after it")
        self._tokens.take(token, caller.action)
        tab.busy = caller.action
        tab.used_s = time.monotonic()
        tab.rules = caller.rules
        try:
            yield tab
        finally:
            tab.busy = None


def _made(caller: Caller) -> str:
    """The id of a window that is made for a caller."""
    return MADE + hashlib.sha256(caller.owner.encode()).hexdigest()[:16]
