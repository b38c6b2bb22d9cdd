"""
The commands, done: who may use which page, and what each gives back.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from playwright.async_api import Error as PlaywrightError

from mulligan.tools.web_use.addresses import check_url
from mulligan.tools.web_use.bridge import verdict
from mulligan.tools.web_use.bridge.acting import Acting, InPage, Means
from mulligan.tools.web_use.bridge.holdings import Configuration, Holdings
from mulligan.tools.web_use.bridge.look import Look
from mulligan.tools.web_use.bridge.opening import go
from mulligan.tools.web_use.bridge.pages import Pages
from mulligan.tools.web_use.bridge.receipts import Kept, Records
from mulligan.tools.web_use.bridge.redaction import Redaction
from mulligan.tools.web_use.bridge.shown import Shown
from mulligan.tools.web_use.bridge.snapshot import cut, difference
from mulligan.tools.web_use.bridge.tab import LOOK_S, Tab
from mulligan.tools.web_use.bridge.window import Window, Windows
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import (
    Close,
    Command,
    Condition,
    ListPages,
    Navigate,
    Observe,
    Screenshot,
    Verify,
    flat,
)
from mulligan.tools.web_use.results import (
    Closed,
    Evidence,
    Observation,
    PageList,
    Receipt,
    Result,
    Verified,
)

__all__ = ["Asked", "Bridge"]

REMEMBERED = 2_000
"""Results that are kept for commands that come again, and tabs of acts."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A command that came in. `wanted` tells whether whoever sent it is still there."""

    command: Command
    caller: Caller
    deadline_s: float
    wanted: Callable[[], bool]

    @property
    def digest(self) -> str:
        """Tells two commands under one id apart; it holds what is typed, and can't be read."""
        plain = msgspec.json.encode(flat(self.command), order="sorted")
        return hashlib.sha256(plain).hexdigest()


class Bridge:
    """Does commands for callers, one at a time on a page, each at most once."""

    def __init__(
        self,
        windows: Windows,
        records: Records,
        configuration: Configuration,
        redaction: Redaction,
    ) -> None:
        self._windows = windows
        self._records = records
        self._configuration = configuration
        self._shown = Shown(redaction)
        self._pages = Pages(windows, records, self._shown)
        self._holdings = Holdings(configuration)
        self._done: OrderedDict[str, tuple[str, Result]] = OrderedDict()
        self._acted: OrderedDict[str, str] = OrderedDict()
        """ids of acts, and the page of each"""

    async def do(self, asked: Asked) -> Result:
        """
        Do a command, or give what it came to when it came before under the same id.

        Raises WebUseFailed.
        """
        before = self._before(asked)
        if before is not None:
            return before
        window = self._pages.window_of(asked.caller)
        window.under_way[asked.caller.action] = asked.caller.rules
        try:
            result = await self._do(asked, window)
        finally:
            del window.under_way[asked.caller.action]
            self._windows.keep_views()
        _remember(self._done, asked.caller.action, (asked.digest, result))
        return result

    async def settle(self, caller: Caller) -> Receipt | None:
        """
        What became of an act: its stored receipt; where that is open, its page is looked at once
        more, if it is still the same one. None: it never began.
        """
        kept = self._records.act(caller.action)
        if kept is None or kept.receipt.outcome == "not_started":
            return None
        if kept.receipt.outcome != "unknown":
            return kept.receipt
        return await self._looked_again(kept)

    def bind(self, run: str, window: str) -> None:
        """
        Let a run use the pages of a window besides its own.

        Raises WebUseFailed, `desktop_unavailable`, if the window is not registered.
        """
        self._pages.registered(window)
        self._records.bind(run, window)

    def leave(self, caller: Caller) -> None:
        """Close the window that was made for a caller."""
        self._pages.leave(caller)

    # --- What came before ------------------------------------------------------------------------

    def _before(self, asked: Asked) -> Result | None:
        """
        The result of the same command under the same id.

        Raises WebUseFailed: it was an act that may have been done; or the id is another command's.
        """
        action = asked.caller.action
        done = self._done.get(action)
        if done is not None:
            _same(done[0], asked)
            return done[1]
        kept = self._records.act(action)
        if kept is None:
            return None
        _same(kept.digest, asked)
        match kept.receipt.outcome:
            case "not_started":
                return None
            case "done" | "confirmed":
                return self._with_page(kept.receipt, asked.caller)
            case "unknown":
                raise WebUseFailed(
                    "backend_action_failed",
                    "this act was begun before and may have been done; it is not repeated",
                    receipt=kept.receipt,
                )

    async def _looked_again(self, kept: Kept) -> Receipt:
        tab = self._pages.find(self._acted.get(kept.receipt.action))
        receipt = kept.receipt
        if tab is None or receipt.dispatched is not True or not receipt.evidence:
            return receipt
        look = await tab.look()
        evidence = verdict.settled(receipt.evidence, look)
        failures = verdict.settled(receipt.failures, look)
        outcome = verdict.judged(True, evidence, failures)
        receipt = msgspec.structs.replace(
            receipt, evidence=evidence, failures=failures, outcome=outcome
        )
        self._records.keep(kept.digest, receipt)
        return receipt

    def _with_page(self, receipt: Receipt, caller: Caller) -> Receipt:
        tab = self._pages.find(self._acted.get(receipt.action))
        if tab is None:
            return receipt
        return msgspec.structs.replace(receipt, page=self._pages.token(tab, caller))

    # --- Commands --------------------------------------------------------------------------------

    async def _do(self, asked: Asked, window: Window) -> Result:
        match asked.command:
            case ListPages():
                return await self._list(asked, window)
            case Observe(url=str() as url):
                async with self._opened(url, asked, window) as tab:
                    return await self._observed(tab, asked)
            case Observe(page=str() as page) as command:
                async with self._pages.using(page, asked.caller, window) as tab:
                    return await self._observed(tab, asked, command.since)
            case Verify() as command:
                async with self._pages.using(command.page, asked.caller, window) as tab:
                    return await self._verified(tab, command, asked)
            case Close() as command:
                async with self._pages.using(command.page, asked.caller, window) as tab:
                    url = tab.page.url
                    await window.close_tab(tab)
                    return Closed(url=self._shown.url(url))
            case Navigate(page=None) as command:
                async with self._opened(command.url, asked, window) as tab:
                    return await self._arrived(tab, command, asked)
            case Navigate(page=str() as page) as command:
                async with self._pages.using(page, asked.caller, window) as tab:
                    await self._go(tab, command.url, asked, window)
                    return await self._arrived(tab, command, asked)
            case Screenshot() as command:
                async with self._pages.using(command.page, asked.caller, window) as tab:
                    return await self._screenshot(tab, asked)
            case Observe() | Navigate():
                raise AssertionError("parse refuses an observation of nothing")
            case command:
                async with self._pages.using(command.page, asked.caller, window) as tab:
                    return await self._act(tab, command, asked)

    async def _list(self, asked: Asked, window: Window) -> PageList:
        tabs = [tab for one in self._pages.authorised(asked.caller, window) for tab in one.live()]
        pages = await asyncio.gather(*(self._pages.told(tab, asked.caller) for tab in tabs))
        return PageList(window=window.id, pages=tuple(pages))

    @asynccontextmanager
    async def _opened(self, url: str, asked: Asked, window: Window) -> AsyncIterator[Tab]:
        """A page that is opened at `url`; closed again if anything fails (WEB-4)."""
        check_url(url, asked.caller.rules)
        tab = await window.open(asked.caller.rules)
        tab.busy = asked.caller.action
        try:
            await self._go(tab, url, asked, window)
            yield tab
        except BaseException:
            await window.close_tab(tab)
            raise
        finally:
            tab.busy = None

    async def _go(self, tab: Tab, url: str, asked: Asked, window: Window) -> None:
        check_url(url, asked.caller.rules)
        tab.begin_act()
        left_s = max(asked.deadline_s - asyncio.get_running_loop().time(), 0.1)
        signs_in = self._holdings.signs_in(url)
        await go(tab, url, window.proxy, left_s, signs_in=signs_in)
        if tab.page.url.startswith("http"):
            check_url(tab.page.url, asked.caller.rules)

    async def _observed(self, tab: Tab, asked: Asked, since: str | None = None) -> Observation:
        if tab.page.url.startswith("http"):
            check_url(tab.page.url, asked.caller.rules)
        if since is not None and since not in tab.earlier:
            raise WebUseFailed("stale_observation", "that observation is not kept; observe without")
        left_s = asked.deadline_s - asyncio.get_running_loop().time()
        look = await tab.look(within_s=min(LOOK_S, max(left_s, 0.1)))
        observation = f"o_{secrets.token_hex(6)}"
        snapshot = look.snapshot
        before = tab.earlier[since] if since is not None else None
        tab.remember(observation, snapshot)
        shown, missing = cut(snapshot if before is None else difference(before, snapshot))
        opened, tab.opened = tab.opened, []
        return Observation(
            observation=observation,
            frame=f"f_{tab.id}",
            page=self._pages.token(tab, asked.caller),
            url=self._shown.url(look.url),
            title=self._shown.title(look.title),
            state=look.state,
            snapshot=shown,
            cut=missing,
            since=since,
            dialog=tab.dialogs[-1] if tab.dialog is not None else None,
            downloads=tuple(tab.downloads),
            opened=tuple(
                [await self._pages.told(one, asked.caller) for one in opened if not one.gone]
            ),
        )

    async def _verified(self, tab: Tab, command: Verify, asked: Asked) -> Verified:
        time_s = asyncio.get_running_loop().time
        end_s = min(time_s() + command.wait_ms / 1_000, asked.deadline_s)
        look, evidence = await _seen_to_hold(
            tab,
            command.conditions,
            end_s,
            lambda: tab.look(within_s=max(end_s - time_s(), 0.1)),
        )
        if missing := _missing(evidence):
            raise WebUseFailed(
                "verification_failed",
                f"{missing.condition} {missing.value[:100]!r} does not hold"
                + (f"; the page is {look.state}" if look.state != "ready" else ""),
            )
        page = self._pages.token(tab, asked.caller)
        return Verified(
            page=page,
            url=self._shown.url(look.url),
            title=self._shown.title(look.title),
            evidence=evidence,
        )

    # --- Acts ------------------------------------------------------------------------------------

    async def _act(self, tab: Tab, command: InPage, asked: Asked) -> Receipt:
        if command.observation not in tab.seen:
            raise WebUseFailed(
                "stale_observation",
                "that is no observation of this page since the last act on it; observe it again",
            )
        _remember(self._acted, asked.caller.action, tab.id)
        means = Means(
            keep=lambda receipt: self._records.keep(asked.digest, receipt),
            secret=self._holdings.secret,
            file=self._holdings.file,
            wanted=asked.wanted,
            deadline_s=asked.deadline_s,
            reach=self._configuration.reach,
        )
        receipt = await Acting(tab, command, asked.caller.action, means).do()
        return await self._after(tab, receipt, asked)

    async def _arrived(self, tab: Tab, command: Navigate, asked: Asked) -> Receipt:
        """A navigation's receipt: it is no write, and may be asked for again."""
        time_s = asyncio.get_running_loop().time
        end_s = min(time_s() + command.wait_ms / 1_000, asked.deadline_s)
        _, evidence = await _seen_to_hold(tab, command.evidence, end_s, tab.look)
        receipt = Receipt(
            action=asked.caller.action,
            act="navigate",
            outcome="confirmed" if command.evidence else "done",
            dispatched=True,
            driver="returned",
            url=self._shown.url(tab.page.url),
            requests=tuple(tab.requests.values()),
            evidence=tuple(
                msgspec.structs.replace(one, before=None, after=one.before) for one in evidence
            ),
        )
        if missing := _missing(evidence):
            raise WebUseFailed(
                "verification_failed",
                f"{missing.value[:100]!r} is not on the page",
                receipt=msgspec.structs.replace(receipt, outcome="done"),
            )
        _remember(self._acted, asked.caller.action, tab.id)
        return await self._after(tab, receipt, asked)

    async def _screenshot(self, tab: Tab, asked: Asked) -> Receipt:
        folder = self._configuration.folder / "screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{secrets.token_hex(8)}.png"
        try:
            await tab.page.screenshot(path=path, timeout=LOOK_S * 1_000)
        except PlaywrightError:
            raise WebUseFailed("backend_action_failed", "the page gave no picture") from None
        return Receipt(
            action=asked.caller.action,
            act="screenshot",
            outcome="done",
            dispatched=False,
            url=self._shown.url(tab.page.url),
            page=self._pages.token(tab, asked.caller),
            file=str(path),
        )

    async def _after(self, tab: Tab, receipt: Receipt, asked: Asked) -> Receipt:
        """The receipt with what the page is like now, for the next act."""
        if tab.gone:
            return receipt
        with contextlib.suppress(WebUseFailed):  # it went where this caller may not look
            observation = await self._observed(tab, asked)
            return msgspec.structs.replace(
                receipt,
                after=observation.observation,
                page=observation.page,
                observation=observation,
            )
        return receipt


async def _seen_to_hold(
    tab: Tab, conditions: Sequence[Condition], end_s: float, look: Callable[[], Awaitable[Look]]
) -> tuple[Look, tuple[Evidence, ...]]:
    """Look until all holds, or until the loop's `end_s`; the last look, and what it shows."""
    while True:
        seen = await look()
        evidence = verdict.before(conditions, seen)
        if _missing(evidence) is None or asyncio.get_running_loop().time() >= end_s:
            return seen, evidence
        await tab.changes(0.1)


def _missing(evidence: Sequence[Evidence]) -> Evidence | None:
    """The first condition that does not hold."""
    return next((one for one in evidence if one.before is not True), None)


def _same(digest: str, asked: Asked) -> None:
    if digest != asked.digest:
        raise WebUseFailed("invalid_arguments", "another command was given under this id before")


def _remember(kept: OrderedDict[str, Any], name: str, value: Any) -> None:
    kept[name] = value
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)
