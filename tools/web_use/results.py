"""What the commands of `web_use` give back."""

from __future__ import annotations

from typing import Literal

import msgspec

from mulligan.tools.web_use.conditions import ConditionName

__all__ = [
    "Closed",
    "Element",
    "Evidence",
    "Observation",
    "Page",
    "PageList",
    "Receipt",
    "Request",
    "Result",
    "Verified",
]

PageState = Literal["ready", "navigating", "dialog"]
"""`navigating`: an answer is awaited, and what is there is no evidence of anything. `dialog`: the
page waits for an answer to a dialog, and shows nothing else."""

Outcome = Literal["not_started", "done", "confirmed", "unknown"]
"""
What became of an act. `not_started`: nothing was sent to the page, it may be asked for again.
`done`: input was sent, and no evidence was asked for. `confirmed`: all evidence holds that did not
before. `unknown`: it was or may have been sent, and nothing shows that it has done what it is for;
a declared sign of failure is no proof that it has not.
"""


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every result is: a value."""


class Page(_Value, frozen=True, kw_only=True):
    """A page and the token that the next command about it takes."""

    page: str
    url: str
    title: str
    state: PageState


class PageList(_Value, frozen=True, kw_only=True):
    """The pages that the caller may use; `window` is its own."""

    window: str
    pages: tuple[Page, ...]


class Observation(_Value, frozen=True, kw_only=True):
    """
    A page as it was at one moment. `snapshot` is its accessibility tree with references in
    brackets (`button "Save" [ref=e12]`), which stand for something in this observation only;
    passwords are masked. `cut` counts the bytes that did not fit. `since` names the observation
    that the snapshot is the difference from.
    """

    observation: str
    frame: str
    page: str
    url: str
    title: str
    state: PageState
    snapshot: str = ""
    cut: int = 0
    since: str | None = None
    dialog: str | None = None
    downloads: tuple[str, ...] = ()
    opened: tuple[Page, ...] = ()
    """pages that this one has opened since its last observation"""


class Element(_Value, frozen=True, kw_only=True):
    """What was acted on, as it was found just before: its role, name, and what it stands in."""

    ref: str
    role: str
    name: str
    within: str = ""


class Request(_Value, frozen=True, kw_only=True):
    """A request that left the page during an act; no query, no body. None: not answered yet."""

    method: str
    url: str
    status: int | None = None


class Evidence(_Value, frozen=True, kw_only=True):
    """A condition, before and after; None: it could not be looked at."""

    condition: ConditionName
    value: str
    before: bool | None
    after: bool | None = None


class Receipt(_Value, frozen=True, kw_only=True):
    """
    What is known of an act, stored under its id `action` before and after its input (WEB-9).

    `dispatched` is whether input reached the page: None where that is open. `driver` is what the
    driver said of it, `witnessed` the trusted events that the page itself saw.
    """

    action: str
    act: str
    outcome: Outcome
    before: str | None = None
    after: str | None = None
    element: Element | None = None
    dispatched: bool | None = None
    driver: str = ""
    witnessed: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    failures: tuple[Evidence, ...] = ()
    url: str = ""
    page: str | None = None
    """the token for the next command; None where the page is gone"""
    observation: Observation | None = None
    """what the page was like after; kept in the result, not in what is stored"""
    file: str | None = None
    """of a screenshot"""


class Verified(_Value, frozen=True, kw_only=True):
    """All conditions hold (where one does not, the command fails)."""

    page: str
    url: str
    title: str
    evidence: tuple[Evidence, ...]


class Closed(_Value, frozen=True, kw_only=True):
    """The page is gone."""

    url: str


Result = PageList | Observation | Receipt | Verified | Closed
