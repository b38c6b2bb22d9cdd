"""
One act: looked at, announced, done once, looked at again (WEB-9).

1. The element is found again in a fresh snapshot: same role, name and surroundings, or not at all.
2. The evidence must not be there yet.
3. A trial: whether the element can be acted on. Until here, nothing was sent.
4. The intent goes to disk: what ends this process from here on leaves an unknown outcome.
5. The input, with two witnesses: the driver, and the page's own trusted events.
6. Looks until the evidence is there, or the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import assert_never

import msgspec
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeout

from mulligan.tools.web_use.addresses import without_query
from mulligan.tools.web_use.bridge import verdict
from mulligan.tools.web_use.bridge.look import Look
from mulligan.tools.web_use.bridge.snapshot import Snapshot
from mulligan.tools.web_use.bridge.tab import Tab
from mulligan.tools.web_use.bridge.verdict import Driven
from mulligan.tools.web_use.codes import FailureCode, WebUseFailed
from mulligan.tools.web_use.commands import (
    Click,
    Hover,
    Press,
    Scroll,
    Select,
    Type,
    Upload,
)
from mulligan.tools.web_use.results import Element, Receipt

__all__ = ["Acting", "InPage", "Means"]

InPage = Click | Type | Press | Scroll | Hover | Select | Upload

TRIAL_MS = 3_000
DRIVE_S = 10.0
POLL_S = 0.1
QUIET_S = 0.1
"""How long an act without evidence is watched for what it sets off."""
ANSWER_S = 1.0
"""
How long the site's answer is waited for once the evidence is there: a page may say `saved` before
the site does.
"""


class Means(msgspec.Struct, frozen=True):
    """
    What an act is given: a way to store its receipt, the values behind names of secrets and paths,
    whether somebody still waits for it, and until when (of the loop's clock) it may begin.
    """

    keep: Callable[[Receipt], None]
    secret: Callable[[str, str], str]
    file: Callable[[str], Path]
    wanted: Callable[[], bool]
    deadline_s: float
    reach: Callable[[str], None]


class Acting:
    """An act on a page that nobody else uses meanwhile."""

    def __init__(self, tab: Tab, command: InPage, action: str, means: Means) -> None:
        self._tab = tab
        self._command = command
        self._means = means
        self._receipt = Receipt(
            action=action,
            act=_name(command),
            outcome="not_started",
            before=command.observation,
            dispatched=False,
            url=without_query(tab.page.url),
        )

    async def do(self) -> Receipt:
        """
        Do it, and tell what came of it.

        Raises WebUseFailed with a receipt. `unknown` in it: it may have been done.
        """
        command = self._command
        if isinstance(command, Press) and self._tab.dialog is not None:
            return await self._done(self._answer_dialog(command))
        look = await self._tab.look()
        if look.state != "ready":
            raise self._failed("timeout", "the page is still loading; observe it again")
        locator = self._found(look)
        self._evidence_open(look)
        drive = await self._prepared(locator)
        return await self._done(drive)

    # --- Before ----------------------------------------------------------------------------------

    def _found(self, look: Look) -> Locator | None:
        """The element of the observation, if the fresh snapshot has the same one."""
        ref = self._command.element
        if ref is None:
            return None
        seen = Snapshot(self._tab.seen[self._command.observation]).element(ref)
        if seen is None:
            raise self._failed(
                "invalid_arguments", f"the observation has no element {ref!r}; take one of its refs"
            )
        if look.tree.element(ref) != seen:
            raise self._failed(
                "target_lost", f"{ref} is not there any more as it was observed; observe again"
            )
        self._note(element=_bounded(seen))
        return self._tab.page.locator(f"aria-ref={ref}")

    def _evidence_open(self, look: Look) -> None:
        evidence = verdict.before(self._command.evidence, look)
        self._note(evidence=evidence, failures=verdict.before(self._command.failures, look))
        shown = [one.value for one in evidence if one.before is not False]
        if shown:
            raise self._failed(
                "verification_failed",
                f"{shown[0][:100]!r} is there before the act, so it would show nothing; nothing "
                "was done: choose other evidence",
            )

    async def _prepared(self, locator: Locator | None) -> Callable[[], Awaitable[object]]:
        """What will send the input; it was tried whether the element takes it."""
        command, page = self._command, self._tab.page
        if locator is None:
            match command:
                case Press(key=key):
                    return lambda: page.keyboard.press(key)
                case Scroll(dy=dy):
                    return lambda: page.mouse.wheel(0, dy)
                case _:
                    raise AssertionError("only these need no element")
        try:
            return await self._on_element(locator)
        except PlaywrightTimeout:
            raise self._failed(
                "backend_action_failed",
                "the element can't be acted on: hidden, covered, disabled or moving; nothing was "
                "done",
            ) from None
        except PlaywrightError as error:
            if self._tab.gone:
                raise self._failed("page_target_unavailable", "the page is gone") from None
            raise self._failed("target_lost", _said(error)) from None

    async def _on_element(self, locator: Locator) -> Callable[[], Awaitable[object]]:
        command, limit_ms = self._command, DRIVE_S * 1_000
        match command:
            case Click():
                await locator.click(trial=True, timeout=TRIAL_MS)
                return lambda: locator.click(timeout=limit_ms, no_wait_after=True)
            case Hover():
                await locator.hover(trial=True, timeout=TRIAL_MS)
                return lambda: locator.hover(timeout=limit_ms)
            case Type():
                await self._is(locator, EDITABLE, "no text can be typed into this element")
                text = command.text
                if command.secret is not None:
                    text = self._means.secret(command.secret, await _document_of(locator))
                return lambda: locator.fill(text or "", timeout=limit_ms)
            case Press(key=key):
                await locator.focus(timeout=TRIAL_MS)
                return lambda: locator.press(key, timeout=limit_ms, no_wait_after=True)
            case Scroll(dy=dy):
                await locator.scroll_into_view_if_needed(timeout=TRIAL_MS)
                await locator.hover(timeout=TRIAL_MS)
                return lambda: self._tab.page.mouse.wheel(0, dy)
            case Select():
                await self._is(
                    locator, "e => e.tagName === 'SELECT'", "this is no list to choose of"
                )
                await self._has_options(locator, command.values)
                return lambda: locator.select_option(list(command.values), timeout=limit_ms)
            case Upload():
                await self._is(
                    locator, "e => e.tagName === 'INPUT' && e.type === 'file'", "takes no files"
                )
                files = [self._means.file(path) for path in command.files]
                return lambda: locator.set_input_files(files, timeout=limit_ms)
            case _:
                assert_never(command)

    async def _is(self, locator: Locator, check: str, otherwise: str) -> None:
        if not await locator.evaluate(check, timeout=TRIAL_MS):
            raise self._failed("unsupported_action", otherwise)

    async def _has_options(self, locator: Locator, values: tuple[str, ...]) -> None:
        there = await locator.evaluate(OPTIONS, timeout=TRIAL_MS)
        for value in values:
            if value not in there:
                raise self._failed("invalid_arguments", f"the list has no option {value[:100]!r}")

    # --- From the intent on ----------------------------------------------------------------------

    async def _done(self, drive: Callable[[], Awaitable[object]]) -> Receipt:
        if not self._means.wanted():
            raise self._failed("cancelled", "nobody waits for this any more; nothing was done")
        if asyncio.get_running_loop().time() > self._means.deadline_s:
            raise self._failed("timeout", "its time was over before it began; nothing was done")
        self._tab.begin_act()
        self._note(outcome="unknown", dispatched=None)
        self._means.keep(self._receipt)
        self._means.reach("act.before")
        driven = await self._driven(drive)
        self._means.reach("act.after")
        sent = verdict.dispatched(driven)
        self._note(dispatched=sent, driver=driven.said, witnessed=driven.witnessed or ())
        if sent is not False:
            await self._watch()
        self._note(outcome=verdict.judged(sent, self._receipt.evidence, self._receipt.failures))
        self._means.keep(self._receipt)
        self._raise_unless_done()
        return self._receipt

    async def _driven(self, drive: Callable[[], Awaitable[object]]) -> Driven:
        """Send the input. An alert that it opens holds up the driver, and is an answer too."""
        task = asyncio.ensure_future(drive())
        dialogs = asyncio.ensure_future(self._until_dialog())
        try:
            await asyncio.wait(
                {task, dialogs}, timeout=DRIVE_S + 1, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            dialogs.cancel()
        if not task.done():
            task.add_done_callback(_heard)
            said, returned = "no answer", False
            if self._tab.dialog is None:
                task.cancel()
        elif task.exception() is not None:
            said, returned = _said(task.exception()), False
        else:
            said, returned = "returned", True
        witnessed = await self._tab.witnesses()
        return Driven(returned, said, None if witnessed is None else tuple(witnessed))

    async def _until_dialog(self) -> None:
        before = len(self._tab.dialogs)
        while len(self._tab.dialogs) == before:
            await self._tab.changes(POLL_S)

    async def _watch(self) -> None:
        """Look until all evidence is there, or the time is over."""
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        end_s = min(start_s + self._command.wait_ms / 1_000, self._means.deadline_s)
        declared = self._receipt.evidence or self._receipt.failures
        tree = any(
            one.condition == "element_present"
            for one in (*self._command.evidence, *self._command.failures)
        )
        shown_s: float | None = None
        while True:
            if declared:
                look = await self._tab.look(tree=tree, within_s=max(end_s - loop.time(), POLL_S))
                self._note(
                    evidence=verdict.settled(self._receipt.evidence, look),
                    failures=verdict.settled(self._receipt.failures, look),
                )
                outcome = verdict.judged(True, self._receipt.evidence, self._receipt.failures)
                if outcome == "confirmed":
                    shown_s = loop.time() if shown_s is None else shown_s
                    if not self._tab.unanswered or loop.time() >= shown_s + ANSWER_S:
                        break
            elif loop.time() >= start_s + QUIET_S and not self._tab.navigating:
                break
            if loop.time() >= end_s or self._tab.gone:
                break
            await self._tab.changes(POLL_S)
        self._note(requests=tuple(self._tab.requests.values()))

    def _answer_dialog(self, command: Press) -> Callable[[], Awaitable[object]]:
        if command.key not in ("Enter", "Escape"):
            raise self._failed(
                "unsupported_action", "a dialog is open: press Enter to accept, Escape to dismiss"
            )
        self._evidence_open(self._tab.last)  # the page itself shows nothing while it waits
        return lambda: self._tab.answer_dialog(accept=command.key == "Enter")

    def _raise_unless_done(self) -> None:
        receipt = self._receipt
        match receipt.outcome:
            case "done" | "confirmed":
                return
            case "not_started":
                raise self._failed(
                    "backend_action_failed", f"no input reached the page ({receipt.driver})"
                )
            case "unknown" if receipt.dispatched is None:
                raise self._failed(
                    "backend_action_failed",
                    f"input may have reached the page ({receipt.driver}); it must not be repeated",
                )
            case "unknown":
                raise self._failed("verification_failed", _missing(receipt))
            case _:
                assert_never(receipt.outcome)

    def _note(self, **changes: object) -> None:
        self._receipt = msgspec.structs.replace(self._receipt, **changes)

    def _failed(self, code: FailureCode, message: str) -> WebUseFailed:
        return WebUseFailed(code, message, receipt=self._receipt)


EDITABLE = (
    "e => !e.disabled && !e.readOnly && (e.isContentEditable || e.tagName === 'TEXTAREA' || "
    "e.tagName === 'INPUT' && !['button','checkbox','color','file','hidden','image','radio',"
    "'range','reset','submit'].includes(e.type))"
)
OPTIONS = "e => [...e.options].filter(o => !o.disabled).flatMap(o => [o.value, o.label])"


async def _document_of(locator: Locator) -> str:
    """The URL of the document that an element is in: a page may embed one of somebody else."""
    handle = await locator.element_handle(timeout=TRIAL_MS)
    frame = await handle.owner_frame()
    return frame.url if frame is not None else ""


def _name(command: InPage) -> str:
    return str(command.__struct_config__.tag)


def _missing(receipt: Receipt) -> str:
    failed = [one.value for one in receipt.failures if one.after is not False and not one.before]
    if failed:
        return (
            f"the input was sent, and a declared sign of failure is there: {failed[0][:100]!r}; it "
            "may have taken effect all the same, and must not be repeated"
        )
    missing = [one.value for one in receipt.evidence if one.after is not True]
    return (
        f"the input was sent, and its evidence is not there: {missing[0][:100]!r}; it may have "
        "taken effect, and must not be repeated"
    )


def _bounded(element: Element) -> Element:
    return msgspec.structs.replace(element, name=element.name[:200], within=element.within[:200])


def _said(error: BaseException | None) -> str:
    """A driver's error in its first line: the others log what it tried, page text among it."""
    if isinstance(error, PlaywrightTimeout):
        return "timed out"
    return str(error).partition("\n")[0][:200]


def _heard(task: asyncio.Future[object]) -> None:
    if not task.cancelled():
        task.exception()
