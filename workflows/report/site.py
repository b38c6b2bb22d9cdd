"""
Delivering a report to a form of a site, in a workflow of its own: a local draft authorises nothing.

    from mulligan.workflows.report.site import delivery
    flow = delivery(allow=["reports.example.org"])

A report is submitted only if the save was seen and the same page, looked at once more, shows the
evidence that it did not show before. Whatever else may have happened is `unknown`: then the page
named by `check` is looked at afresh, and if it does not settle that either, a person has to.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from mulligan.errors import ToolError
from mulligan.schemas.builder import Workflow
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.web_rules import WebRules
from mulligan.settings import load_settings
from mulligan.tools.web_use.addresses import host_and_port, without_query
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import BridgeClient
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import (
    Click,
    Close,
    Command,
    ListPages,
    Navigate,
    Observe,
    Select,
    Type,
    Verify,
)
from mulligan.tools.web_use.results import Receipt
from mulligan.workflows.report.form import Form, Shown, element, form_of
from mulligan.workflows.report.package import read_package

INPUT = {
    "type": "object",
    "required": ["folder", "form"],
    "additionalProperties": False,
    "properties": {
        "folder": {"type": "string", "minLength": 1},
        "digest": {"type": "string"},
        "form": {"type": "object", "required": ["url", "button", "evidence"]},
    },
}
SAVE = "save"
"""The step that must not happen twice."""
PATIENCE_S, PAUSE_S = 30.0, 0.5
"""How long a bridge that is not there is waited for."""
BAD = 400
"""From here on an HTTP status says that something was not done (RFC 9110, 15)."""
TEXT_FIELDS = ("textbox", "searchbox")
LISTS = ("combobox", "listbox")

Page = dict[str, Any]


def delivery(
    allow: Sequence[str], networks: Sequence[str] = (), *, name: str = "report_delivery"
) -> Workflow:
    """
    The workflow that submits a package of a report to a form; `allow` are the site's hosts, as in
    a workflow's `settings.web`. Its input is `{folder, digest?, form}`, see `Form`.
    """
    flow = Workflow(name, input=INPUT, web={"allow": list(allow), "networks": list(networks)})
    flow.function("prepared", prepared, effect="read")
    flow.function("before", before, needs=["prepared"], effect="read")
    # Its acts have ids of their own: called again, it is given what each of them has come to.
    flow.function("submitted", submitted, needs=["before"], effect="idempotent")
    unknown = "submitted.outcome == 'unknown'"
    flow.function("reconciled", reconciled, needs=["submitted"], when=unknown, effect="write")
    flow.function("outcome", outcome, needs=["submitted", "reconciled"], effect="read")
    return flow


def prepared(input: dict[str, Any], run_context: RunContext) -> dict[str, Any]:  # noqa: A002 - the workflow's name for it
    """The report and the form, held to all that can be known before a page is opened."""
    package = read_package(Path(input["folder"]))
    manifest = package.manifest
    if manifest.status == "draft":
        raise ToolError("not_verified", "this revision is a draft that did not pass; take another")
    if input.get("digest") not in (None, manifest.digest):
        raise ToolError("other_report", "the package is not the one of that digest")
    form = form_of(input["form"], package, run_context.web)
    report = {"week": manifest.week, "revision": manifest.revision, "digest": manifest.digest}
    return {"report": report, "form": msgspec.to_builtins(form)}


def before(prepared: dict[str, Any], run_context: RunContext) -> dict[str, Any]:
    """
    What is there before anything is sent: a browser, and no such report yet.

    Raises ToolError `already_there` where the page that shows reports shows this one.
    """
    with _Steps(run_context) as steps:
        steps.fresh(ListPages())
        check = _form(prepared).check
        seen = steps.shows(check) if check is not None else None
    if seen is not None:
        raise ToolError("already_there", "the site shows this report before it was submitted")
    return {"looked": check is not None}


def submitted(prepared: dict[str, Any], run_context: RunContext) -> dict[str, Any]:
    """
    Fill the form and save it, once: `confirmed` with the receipt and what was seen after it, or
    `unknown` where it may have been saved.

    Raises ToolError where nothing was saved and nothing will be.
    """
    with _Steps(run_context) as steps:
        try:
            return _saved(_form(prepared), steps)
        except WebUseFailed as failed:
            return steps.what_became_of(failed)


def reconciled(
    prepared: dict[str, Any],
    before: dict[str, Any],
    submitted: dict[str, Any],
    run_context: RunContext,
) -> dict[str, Any]:
    """
    What a fresh look at the page that shows reports says of a save of unknown outcome. Nothing is
    sent; called again, it looks again.

    Raises ToolError with `unknown` where that does not show the report: a person has to say.
    """
    check = _form(prepared).check
    if check is None or not before["looked"]:
        raise _for_a_person(f"{submitted['why']}; no page is named that would show the report")
    try:
        with _Steps(run_context) as steps:
            seen = _patiently(lambda: steps.shows(check))
    except WebUseFailed as failed:
        raise _for_a_person(f"{submitted['why']}; it can't be looked at: {failed}") from None
    if seen is None:
        raise _for_a_person(f"{submitted['why']}; the site does not show the report")
    return {"shown_by": "fresh_observation", "seen": seen}


def outcome(prepared: dict[str, Any], submitted: dict[str, Any], reconciled: Any) -> dict[str, Any]:
    """The report as submitted, and by what that is shown: nothing else comes to an output."""
    shown: dict[str, Any]
    if submitted["outcome"] == "confirmed":
        shown = {"shown_by": "receipt", "receipt": submitted["receipt"], "seen": submitted["seen"]}
    elif isinstance(reconciled, dict) and reconciled.get("shown_by") == "fresh_observation":
        shown = reconciled
    else:
        shown = {"shown_by": "person", "said": reconciled}
    return {"outcome": "submitted", **prepared["report"], **shown}


def _form(prepared: dict[str, Any]) -> Form:
    return msgspec.convert(prepared["form"], Form)


def _patiently(look: Callable[[], Page | None]) -> Page | None:
    """Look, and where no bridge is there wait for it: what is to be settled may have ended it."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return look()
        except WebUseFailed as failed:
            if failed.failure != "desktop_unavailable" or time.monotonic() > end_s:
                raise
        time.sleep(PAUSE_S)


def _for_a_person(message: str) -> ToolError:
    return ToolError("unknown_outcome", message, unknown=True)


# --- The browser ----------------------------------------------------------------------------------


class _Steps:
    """
    A function's commands to the bridge. Those that act have a step's name, and come to the same
    when they are given again; those that look are new each time.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._browser = BridgeClient(load_settings().browser_socket_path)

    @property
    def rules(self) -> WebRules:
        """Where this run's pages may send something."""
        return self._context.web

    def __enter__(self) -> _Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()

    def do(self, step: str, command: Command) -> dict[str, Any]:
        """A command that is done once under its name."""
        return self._browser.call(command, Caller.of_run(self._context, step))

    def fresh(self, command: Command) -> dict[str, Any]:
        """A command that only looks, done anew."""
        return self.do(f"look-{secrets.token_hex(8)}", command)

    def shows(self, page: Shown) -> Page | None:
        """
        What a page is like that shows its evidence, opened afresh; None: it does not.

        Raises WebUseFailed where it can't be read: an error page shows nothing either.
        """
        look = Navigate(url=page.url, evidence=page.evidence, wait_ms=page.wait_ms)
        try:
            receipt = self.fresh(look)
        except WebUseFailed as failed:
            if failed.failure != "verification_failed" or failed.receipt is None:
                raise
            _refuse_unread(failed.receipt)
            return None
        _refuse_unread(msgspec.convert(receipt, Receipt))
        self.close(receipt["page"])
        seen = receipt["observation"]
        names = ("observation", "url", "title")
        return {**{name: seen[name] for name in names}, "evidence": receipt["evidence"]}

    def close(self, page: str | None) -> None:
        """Close a page, if that can be done."""
        if page is not None:
            with contextlib.suppress(WebUseFailed):
                self.fresh(Close(page=page))

    def what_became_of(self, failed: WebUseFailed) -> dict[str, Any]:
        """
        The outcome of a save over which something failed; asking makes sure that one which had not
        begun does not begin any more.

        Raises ToolError: nothing was saved.
        """
        try:
            receipt = self._browser.settle(Caller.of_run(self._context, SAVE))
        except WebUseFailed as silent:
            return _unknown(f"{failed}; and the browser can't be asked: {silent}", None)
        if receipt is None:
            raise ToolError(failed.failure, f"nothing was saved: {failed}") from None
        return _unknown(str(failed), msgspec.to_builtins(receipt))


def _refuse_unread(receipt: Receipt) -> None:
    if any(one.after is None for one in receipt.evidence):
        raise WebUseFailed("timeout", "the page of check did not come to rest")
    status = _status(receipt, receipt.url)
    if status >= BAD:
        raise WebUseFailed("backend_action_failed", f"the page of check answered {status}")


def _status(receipt: Receipt, url: str) -> int:
    """What the document at a URL was answered with, as far as that was seen."""
    plain = without_query(url)
    found = [one.status for one in receipt.requests if one.url == plain]
    return next((one for one in found if one is not None), 0)


def _refusal(receipt: Receipt, rules: WebRules) -> str | None:
    """What the site answered to a save that it did not take, whatever its page says."""
    for one in receipt.requests:
        sends = one.method not in ("GET", "HEAD") and rules.host_allowed(*host_and_port(one.url))
        shown = receipt.observation is not None and one.url == without_query(
            receipt.observation.url
        )
        if (sends or shown) and (one.status or 0) >= BAD:
            return f"the site answered {one.method} {one.url} with {one.status}"
    return None


def _saved(form: Form, steps: _Steps) -> dict[str, Any]:
    page = _filled(form, steps)
    save = Click(
        page=page["page"],
        observation=page["observation"],
        element=element(page["snapshot"], ("button",), form.button),
        evidence=form.evidence,
        failures=form.failures,
        wait_ms=form.wait_ms,
    )
    receipt = steps.do(SAVE, save)
    if receipt["outcome"] != "confirmed" or receipt.get("page") is None:
        return _unknown("the page that was saved is gone", receipt)
    refused = _refusal(msgspec.convert(receipt, Receipt), steps.rules)
    if refused is not None:
        steps.close(receipt["page"])
        return _unknown(refused, {**receipt, "observation": None, "page": None})
    # Evidence that a receipt speaks of was there for a moment; this is a look of its own.
    seen = steps.do("seen", Verify(page=receipt["page"], conditions=form.evidence))
    steps.close(seen.pop("page"))
    receipt = {name: receipt[name] for name in receipt if name not in ("observation", "page")}
    return {"outcome": "confirmed", "receipt": receipt, "seen": seen}


def _unknown(why: str, receipt: Any) -> dict[str, Any]:
    kept: Literal["unknown"] = "unknown"
    return {"outcome": kept, "why": why, "receipt": receipt}


def _filled(form: Form, steps: _Steps) -> Page:
    """The page of the form with all of its fields filled in."""
    page: Page = steps.do("open", Observe(url=form.url))
    for label, text in form.fields.items():
        page = _put(steps, page, TEXT_FIELDS, label, text=text)
    for label, choice in form.choices.items():
        page = _put(steps, page, LISTS, label, values=(choice,))
    for label, name in form.secrets.items():
        page = _put(steps, page, TEXT_FIELDS, label, secret=name)
    return page


def _put(steps: _Steps, page: Page, roles: tuple[str, ...], label: str, **what: Any) -> Page:
    kind: type[Type] | type[Select] = Select if "values" in what else Type
    command = kind(
        page=page["page"],
        observation=page["observation"],
        element=element(page["snapshot"], roles, label),
        **what,
    )
    receipt = steps.do(f"fill {label}", command)
    seen = receipt.get("observation")
    if seen is None or receipt.get("page") is None:
        raise WebUseFailed("page_target_unavailable", "the form that was filled in is gone")
    return {**seen, "page": receipt["page"]}
