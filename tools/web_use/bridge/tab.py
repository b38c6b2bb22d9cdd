"""One page of a window: what is known of it from its events, and how it is looked at."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from playwright.async_api import CDPSession, Dialog, Download, Frame, Page, Response
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Request as PageRequest

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.addresses import without_query
from mulligan.tools.web_use.bridge.look import Look
from mulligan.tools.web_use.bridge.snapshot import masked
from mulligan.tools.web_use.results import PageState, Request

__all__ = ["Tab", "bounded"]

T = TypeVar("T")

LOOK_S = 5.0
"""How long a page may take to say what it shows."""
FRAME_S = 1.0
"""The same for a page within it."""
NAVIGATING_S = 0.3
"""The same while an answer is awaited: its commands are then held up."""
REMEMBERED = 5
MOST_REQUESTS = 50
WORLD = "mulligan"
SAW = "__mulligan_saw"
WITNESS = (
    "for (const type of ['mousedown', 'mouseup', 'click', 'keydown', 'beforeinput', 'input', "
    "'change', 'submit', 'wheel', 'mousemove'])"
    f" addEventListener(type, event => {{ if (event.isTrusted) {SAW}(type) }}, true);"
)
"""Listeners in a world of their own, which the page's scripts can't reach."""
READ = (
    "() => [document.readyState, document.body ? document.body.innerText : '', "
    "[...document.querySelectorAll('input[type=password]')].map(field => field.value)]"
)


class Tab:
    """
    A page. `busy` is the id of the command that is at it; `seen` are the snapshots of observations
    whose references count: those since the last act. `earlier` has those before too. `used_s` is
    when a command came to it last, by the clock that only rises.
    """

    def __init__(self, page: Page, session: CDPSession, target: str) -> None:
        self.id = secrets.token_hex(8)
        self.page = page
        self.target = target
        self.rules = WebRules()
        self.busy: str | None = None
        self.used_s = time.monotonic()
        self.seen: dict[str, str] = {}
        self.earlier: OrderedDict[str, str] = OrderedDict()
        self.dialog: Dialog | None = None
        self.dialogs: list[str] = []
        self.downloads: list[str] = []
        self.opened: list[Tab] = []
        self.witnessed: list[str] = []
        self.requests: dict[PageRequest, Request] = {}
        self.unanswered: set[PageRequest] = set()
        """requests of the act that send something, and have no answer yet"""
        self._moved = False
        self.last = Look("navigating", page.url)
        """the last that showed something"""
        self.heading = page.url
        """where its last navigation went"""
        self.status: int | None = None
        self.redirected = False
        self.gone = False
        self._navigating: PageRequest | None = None
        self._session = session
        self._changed = asyncio.Event()
        self._listen()

    @classmethod
    async def of(cls, page: Page) -> Tab:
        """A tab for a page, with its witness in place."""
        session = await page.context.new_cdp_session(page)
        info = await session.send("Target.getTargetInfo")
        tab = cls(page, session, str(info["targetInfo"]["targetId"]))
        await session.send("Runtime.enable")
        await session.send("Page.enable")
        await session.send("Runtime.addBinding", {"name": SAW, "executionContextName": WORLD})
        await session.send(
            "Page.addScriptToEvaluateOnNewDocument",
            {"source": WITNESS, "worldName": WORLD, "runImmediately": True},
        )
        return tab

    @property
    def state(self) -> PageState:
        """Whether what it shows can be read."""
        if self.dialog is not None:
            return "dialog"
        return "navigating" if self._navigating is not None else "ready"

    @property
    def navigating(self) -> bool:
        """Whether an answer is awaited that will replace what is there."""
        return self._navigating is not None

    # --- Looking ---------------------------------------------------------------------------------

    async def look(self, *, tree: bool = True, within_s: float = LOOK_S) -> Look:
        """What it shows; `navigating` where it does not answer in time."""
        if self.dialog is not None:
            return Look("dialog", self.page.url)
        limit_s = min(within_s, NAVIGATING_S if self.navigating else LOOK_S)
        found = await bounded(self._read(tree), limit_s, unless=self._dialog_opens())
        if self.dialog is not None:
            return Look("dialog", self.page.url)
        if found is None or self.navigating:
            return Look("navigating", self.page.url)
        self.last = found
        return found

    async def _read(self, tree: bool) -> Look | None:
        frames = self.page.frames
        inner = (bounded(_read_frame(frame), FRAME_S) for frame in frames[1:])
        read = await asyncio.gather(_read_frame(frames[0]), *inner)
        if read[0] is None or read[0][0] == "loading":
            return None
        text = "\n".join(one[1] for one in read if one is not None)
        passwords = [value for one in read if one is not None for value in one[2]]
        snapshot = await self.page.aria_snapshot(mode="ai", timeout=LOOK_S * 1_000) if tree else ""
        return Look(
            "ready",
            self.page.url,
            await self.page.title(),
            " ".join(text.split()),
            masked(snapshot, passwords),
            len(passwords),
        )

    async def title(self) -> str:
        """Its title, or nothing where it does not answer."""
        if self.state != "ready":
            return ""
        return await bounded(self.page.title(), 1.0, unless=self._dialog_opens()) or ""

    async def witnesses(self) -> list[str] | None:
        """
        The trusted events of the page since the last act began. None: there were none, and nobody
        knows whether there would be: the page does not answer, is another by now, or has a frame of
        another host, whose events are not seen.
        """
        if self.dialog is None:
            # The answer comes behind all events that were sent before it.
            asked = self._session.send("Runtime.evaluate", {"expression": "1"})
            answer = await bounded(asked, 1.0, unless=self._dialog_opens())
            if answer is not None and not self._moved and not self._foreign():
                return self.witnessed
        return self.witnessed or None

    def _foreign(self) -> bool:
        hosts = {urlsplit(frame.url).hostname for frame in self.page.frames}
        return len(hosts - {None}) > 1

    async def changes(self, within_s: float) -> None:
        """Wait until something is new, or for that long."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), within_s)

    def remember(self, observation: str, snapshot: str) -> None:
        """This observation's references count from now on."""
        self.earlier[observation] = self.seen[observation] = snapshot
        while len(self.earlier) > REMEMBERED:
            gone, _ = self.earlier.popitem(last=False)
            self.seen.pop(gone, None)

    def begin_act(self) -> None:
        """Whatever is observed, witnessed and requested from now on is new."""
        self.seen = {}
        self.witnessed = []
        self.requests = {}
        self.unanswered = set()
        self._moved = False

    async def unless_dialog(self, asked: Awaitable[T]) -> T | None:
        """What is asked for; None where a dialog opens first, which holds it up."""
        task = asyncio.ensure_future(asked)
        opens = asyncio.ensure_future(self._dialog_opens())
        try:
            await asyncio.wait({task, opens}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for one in (task, opens):
                one.cancel()
                one.add_done_callback(_heard)

    async def _dialog_opens(self) -> None:
        while self.dialog is None:
            self._changed.clear()
            await self._changed.wait()

    # --- Events ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        on: Any = self.page.on  # it has an overload for every event
        on("dialog", self._on_dialog)
        on("download", self._on_download)
        on("request", self._on_request)
        on("response", self._on_response)
        on("requestfailed", self._on_failed)
        on("domcontentloaded", lambda _: self._arrived())
        on("close", lambda _: self.ended())
        on("crash", lambda _: self.ended())
        self._session.on("Runtime.bindingCalled", self._on_witness)

    def _on_witness(self, event: dict[str, Any]) -> None:
        if event.get("name") == SAW and len(self.witnessed) < MOST_REQUESTS:
            if str(event["payload"]) not in self.witnessed:
                self.witnessed.append(str(event["payload"]))
            self._changed.set()

    async def _on_dialog(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":
            await dialog.accept()
            return
        self.dialog = dialog
        self.dialogs.append(f"{dialog.type}: {dialog.message[:500]}")
        self._changed.set()

    async def answer_dialog(self, *, accept: bool) -> None:
        """Say yes or no to the dialog that is open."""
        dialog, self.dialog = self.dialog, None
        if dialog is not None:
            await (dialog.accept() if accept else dialog.dismiss())

    def _on_download(self, download: Download) -> None:
        self.downloads.append(download.suggested_filename[:200])
        self._navigating = None
        self._changed.set()

    def _on_request(self, request: PageRequest) -> None:
        if len(self.requests) < MOST_REQUESTS:
            told = Request(method=request.method, url=without_query(request.url))
            self.requests[request] = told
            if request.method not in ("GET", "HEAD"):
                self.unanswered.add(request)
        if request.is_navigation_request() and _is_main(request, self.page):
            self._navigating = request
            self._moved = True
            self.heading = request.url
            self.status = None
            self.redirected = request.redirected_from is not None
        self._changed.set()

    def _on_response(self, response: Response) -> None:
        told = self.requests.get(response.request)
        self.unanswered.discard(response.request)
        if told is not None:
            self.requests[response.request] = msgspec.structs.replace(told, status=response.status)
        if response.request is self._navigating:
            self.status = response.status
            if response.status in (204, 205):
                self._navigating = None
        self._changed.set()

    def _on_failed(self, request: PageRequest) -> None:
        self.unanswered.discard(request)
        if request is self._navigating:
            self._navigating = None
        self._changed.set()

    def _arrived(self) -> None:
        self._navigating = None
        self._changed.set()

    def ended(self) -> None:
        """It is closed, or has crashed."""
        self.gone = True
        self._navigating = None
        self._changed.set()


async def bounded(
    asked: Awaitable[T], within_s: float, *, unless: Coroutine[Any, Any, None] | None = None
) -> T | None:
    """What is asked for; None where it fails, is late, or `unless` comes first."""
    task = asyncio.ensure_future(asked)
    other = asyncio.ensure_future(unless) if unless is not None else None
    waited = [one for one in (task, other) if one is not None]
    try:
        await asyncio.wait(waited, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return None
        return task.result() if task.exception() is None else None
    except asyncio.CancelledError:
        raise
    finally:
        for one in waited:
            if not one.done():
                one.cancel()
                one.add_done_callback(_heard)


def _heard(task: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more: its error is no news."""
    if not task.cancelled():
        task.exception()


async def _read_frame(frame: Frame) -> tuple[str, str, list[str]] | None:
    try:
        state, text, passwords = await frame.evaluate(READ)
    except PlaywrightError:  # it is being replaced
        return None
    return str(state), str(text), [str(value) for value in passwords]


def _is_main(request: PageRequest, page: Page) -> bool:
    try:
        return request.frame is page.main_frame
    except PlaywrightError:  # its page is not there yet
        return True
