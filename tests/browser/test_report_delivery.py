"""rept5: a report given to a form of the site, which counts what it got; in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.errors import ToolError
from mulligan.projections.state import RunState
from mulligan.schemas.run_context import RunContext
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.week_report import WEEK
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.workflows.report import site as delivery
from mulligan.workflows.report.package import write_revision
from tests.browser.bridge_process import RULES, BridgeProcess
from tests.browser.site import Site

WAIT_S = 90.0
"""Of a busy machine; idle, the slowest takes a tenth."""
SCOPE = {"kind": "weekly", "week": WEEK}
SAVED = [{"condition": "text_contains", "value": "Report saved"}]
LISTED = [{"condition": "text_contains", "value": "Report of {week}"}]
_runs = count(1)


def package(folder: Path, status: Any = "verified") -> str:
    files = {"summary.md": "# Weekly report\n\nAll went well.\n"}
    return str(write_revision(folder, "w48", SCOPE, status, files)[0])


def form(site: Site, path: str, *, check: bool = False, **more: Any) -> dict[str, Any]:
    plain = {"url": f"{site.url}{path}", "button": "Save", "evidence": SAVED}
    shown = {"url": f"{site.url}/reports", "evidence": LISTED, "wait_ms": 100}
    listed = {"check": shown} if check else {}
    return {**plain, "fields": {"Week": "{week}"}, **listed, **more}


SHORT = {"wait_ms": 300}
"""For forms that never show what is waited for."""


class Delivery:
    """The functions of the workflow, called as a worker would, one after another."""

    def __init__(self, folder: Path, form: dict[str, Any], **given: Any) -> None:
        self.run = f"delivery-{next(_runs)}"
        self.input = {"folder": package(folder), "form": form, **given}
        self.values: dict[str, Any] = {}

    def context(self, node: str) -> RunContext:
        return RunContext(run=self.run, call=node, owner=node, origin_window="main", web=RULES)

    def step(self, node: str, *names: str) -> Any:
        given = {name: self.values[name] for name in names}
        if node != "outcome":
            given["run_context"] = self.context(node)
        self.values[node] = getattr(delivery, node)(**given)
        return self.values[node]

    def submit(self) -> Any:
        self.values["prepared"] = delivery.prepared(self.input, self.context("prepared"))
        self.step("before", "prepared")
        return self.step("submitted", "prepared")

    def reconcile(self) -> Any:
        return self.step("reconciled", "prepared", "before", "submitted")

    def outcome(self, reconciled: Any = None) -> Any:
        self.values["reconciled"] = self.values.get("reconciled", reconciled)
        return self.step("outcome", "prepared", "submitted", "reconciled")


@pytest.fixture
def begin(
    bridge: BridgeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Delivery]]:
    monkeypatch.setenv("MULLIGAN_BROWSER_SOCKET", str(bridge.socket))
    yield lambda *form, **more: Delivery(tmp_path, *form, **more)
    bridge.run("tidy").close_all()


Begin = Callable[..., Delivery]


def test_a_report_is_submitted_once_with_its_receipt_and_a_later_look(
    begin: Begin, site: Site
) -> None:
    fields = {"Week": "{week}", "Text": "{summary}"}
    one = begin(form(site, "/form", check=True, fields=fields, choices={"Kind": "Weekly"}))

    done = one.submit()

    assert "confirmed" == done["outcome"]
    assert [True] == [evidence["before"] for evidence in done["seen"]["evidence"]]
    told = one.outcome()
    assert ("submitted", "receipt", WEEK) == (told["outcome"], told["shown_by"], told["week"])
    (saved,) = site.saved
    assert (WEEK, "w") == (saved["week"], saved["kind"])
    assert "All went well." in saved["text"]
    assert one.step("submitted", "prepared") == done, "called again, it is the same receipt"
    assert 1 == len(site.saved)


def test_a_form_that_fails_silently_is_unknown_and_for_a_person(begin: Begin, site: Site) -> None:
    one = begin(form(site, "/form-silent", check=True, **SHORT))

    assert "unknown" == one.submit()["outcome"]
    for _ in range(2):
        with pytest.raises(ToolError, match="does not show the report") as failed:
            one.reconcile()
        assert failed.value.unknown
    assert [("POST", "/silent")] == [one for one in site.received if one[0] == "POST"]


def test_a_form_that_errs_after_saving_is_settled_by_a_fresh_look(begin: Begin, site: Site) -> None:
    one = begin(form(site, "/form-error", check=True, **SHORT))

    assert "unknown" == one.submit()["outcome"]
    assert "fresh_observation" == one.reconcile()["shown_by"]
    told = one.outcome()

    assert ("submitted", "fresh_observation") == (told["outcome"], told["shown_by"])
    assert "Reports" == told["seen"]["title"]
    assert told["seen"]["observation"]
    assert 1 == len(site.saved)


def test_an_error_after_saving_without_a_page_to_look_at_is_for_a_person(
    begin: Begin, site: Site
) -> None:
    failures = [{"condition": "text_contains", "value": "Internal error"}]
    one = begin(form(site, "/form-error", failures=failures, **SHORT))

    assert "unknown" == one.submit()["outcome"]
    with pytest.raises(ToolError, match="no page is named") as failed:
        one.reconcile()

    assert failed.value.unknown
    assert 1 == len(site.saved)
    assert "person" == one.outcome({"shown_by": "receipt"})["shown_by"], "a person's own words"


@pytest.mark.parametrize(
    ("path", "why"), [("/form-halfway", "with 500"), ("/form-hopeful", "with 422")]
)
def test_what_a_page_says_over_an_error_of_the_site_is_no_evidence(
    begin: Begin, site: Site, path: str, why: str
) -> None:
    """A page of error that says so, and a page that says so before the site has answered."""
    one = begin(form(site, path))

    done = one.submit()

    assert ("unknown", True) == (done["outcome"], why in done["why"])
    with pytest.raises(ToolError, match="no page is named") as failed:
        one.reconcile()
    assert failed.value.unknown
    assert 1 == [method for method, _ in site.received].count("POST")


def test_a_save_that_is_led_to_a_login_is_unknown(begin: Begin, site: Site) -> None:
    """Even if the address that it was on its way to is in that of the login."""
    evidence = [{"condition": "title_contains", "value": "Saved"}]
    one = begin(form(site, "/form-to-wall", evidence=evidence, check=True, **SHORT))

    assert "unknown" == one.submit()["outcome"]
    with pytest.raises(ToolError, match="does not show the report"):
        one.reconcile()


def test_a_page_of_reports_that_can_not_be_read_does_not_lack_the_report(
    begin: Begin, site: Site
) -> None:
    """It was there before; nothing is sent, so that it can't be taken for what was sent."""
    site.saved.append({"week": WEEK})
    shown = {"url": f"{site.url}/reports-unwell", "evidence": LISTED, "wait_ms": 100}
    one = begin({**form(site, "/form-silent", **SHORT), "check": shown})

    with pytest.raises(WebUseFailed, match="answered 503"):
        one.submit()

    assert [] == [one for one in site.received if one[0] == "POST"]


def test_a_left_over_banner_is_no_evidence(begin: Begin, site: Site) -> None:
    one = begin(form(site, "/form-banner"))

    with pytest.raises(ToolError, match="nothing was saved") as failed:
        one.submit()

    assert ("verification_failed", False) == (failed.value.code, failed.value.unknown)
    assert [] == [one for one in site.received if one[0] == "POST"]


def test_a_report_that_is_there_already_is_not_sent(begin: Begin, site: Site) -> None:
    site.saved.append({"week": WEEK})
    one = begin(form(site, "/form", check=True))

    with pytest.raises(ToolError, match="before it was submitted"):
        one.submit()

    assert 1 == len(site.saved)


def test_evidence_that_a_later_look_does_not_find_is_none(
    begin: Begin, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The save was seen to be confirmed; the same page does not say so any more."""
    do = delivery._Steps.do

    def slowly(self: Any, step: str, command: Any) -> Any:
        if step == "seen":
            site.rows = []
            asked = site.received.count(("GET", "/rows"))
            until(lambda: site.received.count(("GET", "/rows")) > asked + 1, 10)
        return do(self, step, command)

    monkeypatch.setattr(delivery._Steps, "do", slowly)
    one = begin(form(site, "/form-fleeting"))

    done = one.submit()

    assert ("unknown", "confirmed") == (done["outcome"], done["receipt"]["outcome"])
    with pytest.raises(ToolError):
        one.reconcile()
    assert 1 == len(site.saved)


@pytest.mark.parametrize(
    ("path", "more", "code"),
    [
        ("/wall", {"url": "localhost"}, "needs_user"),
        ("/form", {"button": "Send"}, "form_differs"),
        ("/form", {"fields": {"Month": "{week}"}}, "form_differs"),
        ("/form", {"choices": {"Kind": "Yearly"}}, "invalid_arguments"),
        ("/form", {"evidence": []}, "invalid_form"),
        ("/form", {"fields": {"Week": "{weeks}"}}, "invalid_form"),
        ("/form", {"button": ""}, "invalid_form"),
        ("/form", {"url": "http://example.org/"}, "permission_denied"),
        ("/form", {"unknown": 1}, "invalid_form"),
    ],
)
def test_what_can_not_be_submitted_is_an_error_and_nothing_was_saved(
    begin: Begin, site: Site, path: str, more: dict[str, Any], code: str
) -> None:
    given = form(site, path, **more)
    if more.get("url") == "localhost":  # where no secret is known
        given["url"] = site.url.replace("127.0.0.1", "localhost") + path

    with pytest.raises(ToolError) as failed:
        begin(given).submit()

    assert (code, False) == (failed.value.code, failed.value.unknown)
    assert [] == site.saved


def test_only_a_verified_package_that_nobody_changed_is_submitted(
    begin: Begin, site: Site, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    one = begin(form(site, "/form"), digest="0" * 64)
    for folder, given, code in (
        (package(other, "draft"), {}, "not_verified"),
        (one.input["folder"], {"digest": "0" * 64}, "other_report"),
        (str(tmp_path / "nowhere"), {}, "package_unreadable"),
    ):
        with pytest.raises(ToolError) as failed:
            delivery.prepared(
                {"form": one.input["form"], "folder": folder, **given}, one.context("prepared")
            )
        assert code == failed.value.code
    (Path(one.input["folder"]) / "summary.md").write_text("changed")
    with pytest.raises(ToolError, match=r"summary\.md was changed"):
        delivery.prepared({"form": {}, "folder": one.input["folder"]}, one.context("prepared"))


def test_without_a_browser_nothing_begins(
    begin: Begin, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_BROWSER_SOCKET", str(tmp_path / "no.sock"))

    with pytest.raises(WebUseFailed) as failed:
        begin(form(site, "/form")).submit()

    assert "desktop_unavailable" == failed.value.code


# --- Runs, workers and bridges that die -----------------------------------------------------------


class Post:
    """A log, workers that reach a bridge, and the delivery as a user's workflow."""

    def __init__(self, url: str, folder: Path, forked: Callable[..., Any]) -> None:
        self.url, self.folder, self._forked = url, folder, forked
        self.client = Client(Settings(redis_url=url, data_dir=folder))

    def worker(self, bridge: BridgeProcess) -> Any:
        return self._forked(
            {
                "MULLIGAN_REDIS_URL": self.url,
                "MULLIGAN_LEASE_MS": "1000",
                "MULLIGAN_LEASE_MARGIN_MS": "200",
                "MULLIGAN_BROWSER_SOCKET": str(bridge.socket),
            }
        )

    def enqueue(self, form: dict[str, Any]) -> str:
        given = {"folder": package(self.folder), "form": form}
        flow = delivery.delivery(list(RULES.allow), list(RULES.networks))
        return self.client.enqueue(flow, given, origin_window="main")

    def wait(self, run: str) -> RunState:
        return self.client.wait(run, timeout_s=WAIT_S)


@pytest.fixture
def post(server: ValkeyServer, tmp_path: Path, forked: Callable[..., Any]) -> Iterator[Post]:
    with server.client() as client:
        client.flushall()
    made = Post(server.url, tmp_path, forked)
    yield made
    made.client.close()


@pytest.mark.server
def test_a_run_submits_or_waits_for_a_person(post: Post, bridge: BridgeProcess, site: Site) -> None:
    """A person who has looked says so; to look again is safe, and submits nothing."""
    post.worker(bridge)
    run = post.enqueue(form(site, "/form-silent", check=True, **SHORT))

    state = post.wait(run)

    assert ("paused", "reconciliation_required") == (state.status, state.reason)
    assert "outcome" not in {n for n, node in state.nodes.items() if node.status == "completed"}
    assert "does not show the report" in state.detail
    site.saved.append({"week": WEEK})  # late, but there
    post.client.reconcile(run, "reconciled", "retry")
    output = post.client.result(run, timeout_s=WAIT_S)
    assert ("submitted", "fresh_observation") == (output["outcome"], output["shown_by"])
    assert [("POST", "/silent")] == [one for one in site.received if one[0] == "POST"]


@pytest.mark.server
def test_a_worker_killed_between_the_save_and_its_confirmation(
    post: Post, bridge: BridgeProcess, site: Site
) -> None:
    """The next worker is given the receipt of the act that the bridge has finished."""
    worker = post.worker(bridge)
    run = post.enqueue(form(site, "/form-held", wait_ms=8_000))
    until(lambda: site.saved, 30, worker.log)
    worker.end()
    site.hold.set()
    post.worker(bridge)

    told = post.client.result(run, timeout_s=WAIT_S)

    assert ("submitted", "receipt", 1) == (told["outcome"], told["shown_by"], len(site.saved))


@pytest.mark.server
def test_a_bridge_killed_between_the_save_and_its_confirmation(
    chromium: None, post: Post, site: Site, tmp_path: Path
) -> None:
    """A fresh look at the page that shows reports settles it; nothing is submitted twice."""
    bridge = BridgeProcess(tmp_path / "own", "main")
    try:
        worker = post.worker(bridge)
        run = post.enqueue(form(site, "/form-held", check=True))
        until(lambda: site.saved, 30, worker.log)
        bridge.kill()
        bridge.start()
        site.hold.set()

        output = post.client.result(run, timeout_s=WAIT_S)

        assert ("submitted", "fresh_observation") == (output["outcome"], output["shown_by"])
        assert 1 == len(site.saved)
    finally:
        bridge.stop()
