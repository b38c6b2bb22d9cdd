"""The one Chromium of a bridge: started when it is first needed, and again if it has died."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import structlog
from playwright.async_api import Browser, BrowserContext, CDPSession, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["Chromium", "Profile"]

ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
START_MS = 30_000

_log = structlog.get_logger(__name__)


class Profile:
    """A browser context, and the id by which the browser knows it."""

    def __init__(self, context: BrowserContext, context_id: str, session: CDPSession) -> None:
        self.context = context
        self._id = context_id
        self._session = session

    async def open(self) -> str:
        """Open an empty page behind all others, and return its target's id."""
        made = await self._session.send(
            "Target.createTarget",
            {"url": "about:blank", "background": True, "browserContextId": self._id},
        )
        return str(made["targetId"])


class Chromium:
    """`gone` is called when a browser that ran has ended by itself."""

    def __init__(self, executable: Path, gone: Callable[[], None], *, headed: bool = False) -> None:
        self._executable = executable
        self._gone = gone
        self._headed = headed
        self._lock = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._session: CDPSession | None = None
        self._closing = False

    async def profile(self, proxy_port: int) -> Profile:
        """
        A fresh context whose requests all go through that port.

        Raises WebUseFailed, `backend_action_failed`, where Chromium does not start.
        """
        async with self._lock:
            browser, session = await self._running()
            before = await _contexts(session)
            context = await browser.new_context(
                proxy={"server": f"http://127.0.0.1:{proxy_port}", "bypass": "<-loopback>"},
                accept_downloads=True,
                service_workers="block",
            )
            (made,) = await _contexts(session) - before
            return Profile(context, made, session)

    async def close(self) -> None:
        """End it."""
        self._closing = True
        async with self._lock:
            if self._browser is not None:
                await self._browser.close()
            if self._playwright is not None:
                await self._playwright.stop()

    async def _running(self) -> tuple[Browser, CDPSession]:
        if self._browser is None or self._session is None or not self._browser.is_connected():
            try:
                self._browser = await self._started()
                self._session = await self._browser.new_browser_cdp_session()
            except PlaywrightError as error:
                self._browser = self._session = self._playwright = None
                _log.error("chromium_failed", error=str(error)[:2_000])
                raise WebUseFailed(
                    "backend_action_failed", "Chromium did not start; see the bridge's log"
                ) from None
        return self._browser, self._session

    async def _started(self) -> Browser:
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        # Chromium's sandbox needs a user; as root it can't be had.
        root = ("--no-sandbox",) if os.getuid() == 0 else ()
        browser = await self._playwright.chromium.launch(
            executable_path=self._executable,
            headless=not self._headed,
            args=[*ARGUMENTS, *root],
            timeout=START_MS,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        browser.on("disconnected", self._ended)
        _log.info("chromium_started", version=browser.version)
        return browser

    def _ended(self, browser: Browser) -> None:
        if not self._closing:
            _log.error("chromium_gone")
            self._gone()


async def _contexts(session: CDPSession) -> set[str]:
    found = await session.send("Target.getBrowserContexts")
    return set(found["browserContextIds"])
