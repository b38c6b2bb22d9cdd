"""What each command does in a real Chromium, and how each failure comes about."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mulligan.schemas.web_rules import WebRules
from mulligan.testing.waiting import until
from mulligan.tools.web_use.client import BridgeClient
from mulligan.tools.web_use.codes import FAILURE_CODES, WebUseFailed
from tests.browser.bridge_process import CANARY, BridgeProcess, Browsing, saved
from tests.browser.site import Site, redirect_to


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def test_from_an_empty_window_a_url_is_opened_and_observed(web: Browsing, site: Site) -> None:
    """web3, web4, web5: an empty list is no error and no obstacle, and nothing is submitted."""
    assert [] == web.do(command="list_pages")["pages"]

    seen = web.observe(f"{site.url}/form")

    assert ("Form", "ready", f"{site.url}/form") == (seen["title"], seen["state"], seen["url"])
    assert seen["observation"].startswith("o_")
    assert seen["frame"].startswith("f_")
    assert "textbox" in seen["snapshot"]
    assert [("GET", "/form")] == [one for one in site.received if one[1] != "/favicon.ico"]
    assert ["Form"] == [page["title"] for page in web.do(command="list_pages")["pages"]]


def test_a_form_is_filled_in_and_saved_with_evidence(web: Browsing, site: Site) -> None:
    """web9: the receipt says what was acted on, sent, seen and shown."""
    web.observe(f"{site.url}/form")
    web.do(**web.act("type", 'textbox "Week"', text="12"))
    web.do(**web.act("select", 'combobox "Kind"', values=["Weekly"]))
    before = web.seen["observation"]

    receipt = web.do(**web.act("click", 'button "Save"', evidence=saved("Report saved")))

    assert ("confirmed", True, "returned") == tuple(
        receipt[name] for name in ("outcome", "dispatched", "driver")
    )
    assert ("button", "Save") == (receipt["element"]["role"], receipt["element"]["name"])
    assert {"mousedown", "click", "submit"} <= set(receipt["witnessed"])
    assert {"method": "POST", "url": f"{site.url}/save", "status": 200} in receipt["requests"]
    assert [(False, True)] == [(one["before"], one["after"]) for one in receipt["evidence"]]
    assert (before, receipt["observation"]["observation"]) == (receipt["before"], receipt["after"])
    assert [("12", "w")] == [(one["week"], one["kind"]) for one in site.saved]


def test_the_other_actions(web: Browsing, site: Site) -> None:
    """web1: hover, press, scroll, navigate, screenshot, upload, verify and close."""
    web.observe(f"{site.url}/controls")
    web.do(**web.act("hover", 'button "Hover me"', evidence=saved("hovered")))
    web.do(**web.act("press", 'textbox "Keys"', key="a", evidence=saved("key a")))
    web.do(**web.act("scroll", dy=900, evidence=saved("scrolled")))
    picture = web.do(command="act", action="screenshot", page=web.page)
    assert picture["file"].endswith(".png")
    moved = web.do(command="act", action="navigate", page=web.page, url=f"{site.url}/upload-page")
    assert ("done", "Upload") == (moved["outcome"], moved["observation"]["title"])
    (web.bridge.folder / "files").mkdir(exist_ok=True)
    (web.bridge.folder / "files" / "week.txt").write_text("seven")
    web.do(**web.act("upload", 'button "File"', files=["week.txt"]))
    web.do(**web.act("click", 'button "Send"', evidence=saved("File received")))
    assert ["seven"] == [one["file"] for one in site.saved]
    conditions = [
        *saved("File received"),
        {"condition": "text_not_contains", "value": "Error"},
        {"condition": "url_contains", "value": "/upload"},
        {"condition": "title_contains", "value": "Uploaded"},
        {"condition": "element_present", "value": 'heading "File received"'},
    ]
    assert 5 == len(web.do(command="verify", page=web.page, conditions=conditions)["evidence"])
    web.do(command="close", page=web.page)
    assert [] == web.do(command="list_pages")["pages"]


def test_each_code_of_a_page_token_has_its_own_cause(
    web: Browsing, site: Site, bridge: BridgeProcess
) -> None:
    """web3, web6: used once, by its owner, of this bridge."""
    first = web.observe(f"{site.url}/")["page"]
    second = web.look()["page"]
    stranger = bridge.caller("stranger")

    assert "page_context_consumed" == web.fails(command="observe", page=first).code
    assert "page_context_owner_mismatch" == stranger.fails(command="observe", page=second).code
    assert "page_context_stale" == web.fails(command="observe", page="p_00000000_x").code
    other = web.do(command="list_pages")["pages"][0]["page"]
    web.do(command="close", page=second)
    assert "page_target_unavailable" == web.fails(command="observe", page=other).code


def test_only_one_command_at_a_time_is_at_a_page(web: Browsing, site: Site) -> None:
    """web6: page_in_use, and the second command leaves its token as it was."""
    token = web.observe(f"{site.url}/form-held")["page"]
    other = web.do(command="list_pages")["pages"][0]["page"]
    web.page = token
    click = web.act("click", 'button "Save"', evidence=saved("Report saved"), wait_ms=15_000)
    thread = threading.Thread(target=lambda: web.do(**click))
    thread.start()
    while not site.saved:
        pass

    assert "page_in_use" == web.fails(command="observe", page=other).code

    site.hold.set()
    thread.join(20)
    assert "Saved" == web.do(command="observe", page=other)["title"]


def test_a_write_makes_observations_stale(web: Browsing, site: Site) -> None:
    """web5: references of before an act are refused, and nothing is sent."""
    web.observe(f"{site.url}/form")
    old = web.seen
    web.do(**web.act("type", 'textbox "Week"', text="1"))
    web.seen = old

    failed = web.fails(**web.act("click", 'button "Save"'))

    assert ("stale_observation", []) == (failed.code, site.saved)


def test_a_row_that_changed_under_an_observation_is_not_acted_on(web: Browsing, site: Site) -> None:
    """web5, web6: a reference alone is no identity."""
    web.observe(f"{site.url}/list")
    web.do(command="verify", page=web.page, conditions=saved("Anna Delete Bert"))
    web.look()
    site.rows = ["Bert", "Anna"]
    web.do(command="verify", page=web.page, conditions=saved("Bert Delete Anna"))

    failed = web.fails(**{**web.act("click"), "element": web.ref('button "Delete"')})

    assert ("target_lost", []) == (failed.code, site.saved)
    page = web.do(command="list_pages")["pages"][0]["page"]
    web.do(command="observe", page=page)
    web.do(**{**web.act("click"), "element": web.ref('button "Delete"')})
    assert [{"deleted": "Bert"}] == site.saved


@pytest.mark.parametrize(
    ("path", "receipt", "kept"),
    [("form-silent", "unknown", 0), ("form-error", "unknown", 1)],
)
def test_a_click_without_its_evidence_is_no_success_and_no_failure(
    web: Browsing, site: Site, path: str, receipt: str, kept: int
) -> None:
    """web9: what was sent is never to be repeated, though the page shows nothing, or an error."""
    web.observe(f"{site.url}/{path}")

    failed = web.fails(
        **web.act("click", 'button "Save"', evidence=saved("Report saved"), wait_ms=500)
    )

    assert ("verification_failed", True) == (failed.code, failed.unknown)
    assert failed.receipt is not None
    assert (receipt, True) == (failed.receipt.outcome, failed.receipt.dispatched)
    assert kept == len(site.saved)


def test_a_sign_of_failure_outweighs_the_evidence(web: Browsing, site: Site) -> None:
    web.observe(f"{site.url}/form")
    failures = [{"condition": "text_contains", "value": "Week"}]

    shown = web.fails(
        **web.act(
            "click",
            'button "Save"',
            evidence=saved("Report saved"),
            failures=[{"condition": "title_contains", "value": "Saved"}, *failures],
            wait_ms=500,
        )
    )

    assert ("verification_failed", True) == (shown.code, shown.unknown)


def test_a_banner_that_was_there_before_is_no_evidence(web: Browsing, site: Site) -> None:
    """web9: evidence that holds already would show nothing, so nothing is sent."""
    web.observe(f"{site.url}/form-banner")

    failed = web.fails(**web.act("click", 'button "Save"', evidence=saved("Report saved")))

    assert ("verification_failed", False, False) == (
        failed.code,
        failed.unknown,
        ("POST", "/silent") in site.received,
    )


def test_the_same_act_again_is_the_receipt_and_no_second_click(web: Browsing, site: Site) -> None:
    """web9: a step that is delivered twice, at once or later; another command is refused."""
    web.observe(f"{site.url}/form")
    click = web.act("click", 'button "Save"', evidence=saved("Report saved"))

    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(web.do("one-act", **click)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    later = web.do("one-act", **click)

    assert ["confirmed"] * 4 == [one["outcome"] for one in (*answers, later)]
    assert 1 == len(site.saved)
    with pytest.raises(WebUseFailed, match="another command"):
        web.do("one-act", command="list_pages")


WAYS_OUT = [
    ("file:///etc/passwd", "unsupported_url"),
    ("chrome://version", "unsupported_url"),
    ("http://user:pw@127.0.0.1/", "unsupported_url"),
    ("http://elsewhere.test/", "permission_denied"),
    ("{site}/unauthorised", "needs_user"),
    ("{site}/captcha", "needs_user"),
    ("redirect:http://elsewhere.test/", "permission_denied"),
    ("redirect:http://169.254.169.254/latest/meta-data", "permission_denied"),
    ("redirect:file:///etc/passwd", "unsupported_url"),
    ("{closed}", "backend_action_failed"),
]


def test_a_failed_open_says_why_and_is_rolled_back(web: Browsing, site: Site) -> None:
    """web4, web6, web7: every hop is looked at, and no page is left behind."""
    closed = f"http://127.0.0.1:{free_port()}"
    told = {}
    for target, _ in WAYS_OUT:
        url = target.replace("{site}", site.url).replace("{closed}", closed)
        if target.startswith("redirect:"):
            url = site.url + redirect_to(target.removeprefix("redirect:"))
        told[target] = web.fails(command="observe", url=url).code

    assert dict(WAYS_OUT) == told
    assert [] == web.do(command="list_pages")["pages"]


def test_where_the_network_is_not_named_the_host_does_not_help(
    bridge: BridgeProcess, site: Site
) -> None:
    """web7: loopback, link-local and private addresses are not the public internet."""
    web = bridge.caller("public", rules=WebRules(allow=("*",)))

    local = [site.url.replace("127.0.0.1", name) for name in ("127.0.0.1", "localhost", "[::1]")]
    for url in (*local, "http://169.254.169.254/"):
        assert "permission_denied" == web.fails(command="observe", url=url).code
    assert ("GET", "/") not in site.received


def test_a_login_that_no_secret_opens_wants_a_person(bridge: BridgeProcess, site: Site) -> None:
    """web6: needs_user; where a secret is there for the host, the agent may log in itself."""
    url = site.url.replace("127.0.0.1", "localhost")
    stranger = bridge.caller("wall")

    assert "needs_user" == stranger.fails(command="observe", url=f"{url}/wall").code
    assert "Login" == bridge.caller("keys").observe(f"{site.url}/wall")["title"]


def test_a_site_that_does_not_answer_is_a_timeout(web: Browsing, site: Site) -> None:
    failed = web.fails(command="observe", url=f"{site.url}/held", timeout_ms=700)

    assert "timeout" == failed.code
    assert [] == web.do(command="list_pages")["pages"]


def test_a_page_that_navigates_is_no_evidence_of_anything(web: Browsing, site: Site) -> None:
    """web5: the state says so, and conditions do not hold there."""
    web.observe(f"{site.url}/")
    web.do(**web.act("click", 'link "Slow"', wait_ms=0))

    assert "navigating" == web.look()["state"]
    failed = web.fails(
        command="verify",
        page=web.page,
        wait_ms=300,
        conditions=[{"condition": "text_not_contains", "value": "Error"}],
    )
    assert "verification_failed" == failed.code
    site.hold.set()
    page = web.do(command="list_pages")["pages"][0]["page"]
    web.do(command="verify", page=page, conditions=saved("At last"))


def test_a_covered_element_gets_no_input(web: Browsing, site: Site) -> None:
    """web6: backend_action_failed, and it may be tried again."""
    web.observe(f"{site.url}/covered")

    failed = web.fails(**web.act("click", 'button "Save"'))

    assert ("backend_action_failed", False) == (failed.code, failed.unknown)


def test_what_an_element_does_not_take(web: Browsing, site: Site) -> None:
    """web6, web7: refused before any input, so that the observation still counts."""
    refused = [
        ("type", 'button "Save"', {"text": "x"}, "unsupported_action"),
        ("select", 'textbox "Week"', {"values": ["x"]}, "unsupported_action"),
        ("upload", 'textbox "Week"', {"files": ["x"]}, "unsupported_action"),
        ("select", 'combobox "Kind"', {"values": ["Yearly"]}, "invalid_arguments"),
        ("type", 'textbox "Week"', {"secret": "OPENAI_API_KEY"}, "permission_denied"),
        ("type", 'textbox "Week"', {"secret": "SHORT_PIN"}, "permission_denied"),
    ]
    web.observe(f"{site.url}/form")
    for action, what, more, code in refused:
        assert code == web.fails(**web.act(action, what, **more)).code
        web.page = web.do(command="list_pages")["pages"][0]["page"]
    assert "invalid_arguments" == web.fails(**{**web.act("click"), "element": "e999"}).code


def test_within_a_frame(web: Browsing, site: Site) -> None:
    """web5: references of a page within the page work like any other."""
    web.observe(f"{site.url}/iframe")
    web.do(command="verify", page=web.page, conditions=saved("Week"))
    web.look()

    receipt = web.do(**web.act("click", 'button "Save"', evidence=saved("Report saved")))

    assert ("confirmed", 1) == (receipt["outcome"], len(site.saved))
    assert "click" in receipt["witnessed"]


def test_a_dialog_is_shown_and_answered(web: Browsing, site: Site) -> None:
    """web5: it is not dismissed behind the agent's back; Enter accepts it, Escape does not."""
    web.observe(f"{site.url}/confirm")
    web.do(**web.act("click", 'button "Save"'))
    assert ("dialog", "confirm: Really save?") == (web.seen["state"], web.seen["dialog"])
    web.do(**web.act("press", key="Escape"))
    assert ("ready", []) == (web.seen["state"], site.saved)
    web.do(**web.act("click", 'button "Save"'))

    receipt = web.do(**web.act("press", key="Enter", evidence=saved("Report saved")))

    assert ("confirmed", 1) == (receipt["outcome"], len(site.saved))


def test_a_dialog_at_once_holds_up_nobody(web: Browsing, site: Site) -> None:
    """web4, web5: a page that opens with an alert is opened all the same."""
    seen = web.observe(f"{site.url}/alert")
    assert ("dialog", "alert: Hello") == (seen["state"], seen["dialog"])

    web.do(**web.act("press", key="Enter"))

    assert "Behind it" in web.look()["snapshot"]


def test_a_frame_of_another_host(web: Browsing, site: Site) -> None:
    """web9: Chromium has it in another process, where no events are witnessed."""
    web.observe(f"{site.url}/foreign")
    web.do(command="verify", page=web.page, conditions=saved("Week"))
    web.look()

    receipt = web.do(**web.act("click", 'button "Save"', evidence=saved("Report saved")))

    assert ("confirmed", "returned", 1) == (receipt["outcome"], receipt["driver"], len(site.saved))


def test_a_popup_and_a_download_are_told_of(web: Browsing, site: Site) -> None:
    web.observe(f"{site.url}/popup")
    receipt = web.do(**web.act("click", 'button "Open"'))
    pages = web.until_listed(2)
    assert {"Popup", "Form"} >= {page["title"] for page in pages} - {""}
    opened = (
        receipt["observation"].get("opened") or web.do(command="observe", page=web.page)["opened"]
    )
    assert f"{site.url}/form" == opened[0]["url"] or "about:blank" == opened[0]["url"]

    web.observe(f"{site.url}/download-page")
    web.do(**web.act("click", 'link "Get figures"'))
    assert ["figures.csv"] == (web.seen.get("downloads") or web.look()["downloads"])


def test_a_large_page_is_cut_and_a_difference_is_small(web: Browsing, site: Site) -> None:
    """web5: at a line's end, with the number of bytes that did not fit."""
    seen = web.observe(f"{site.url}/many")
    assert 32_768 >= len(seen["snapshot"].encode()) > 30_000
    assert seen["cut"] > 30_000

    web.observe(f"{site.url}/controls")
    first = web.seen["observation"]
    web.do(**web.act("press", 'textbox "Keys"', key="b"))
    changed = web.do(command="observe", page=web.page, since=first)
    assert "key b" in changed["snapshot"]
    assert len(changed["snapshot"]) < 900


def test_titles_and_addresses_are_cut_and_conditions_see_all_of_them(
    web: Browsing, site: Site
) -> None:
    """web5: a page may make its own as long as it likes."""
    seen = web.observe(f"{site.url}/boastful")

    assert (500, 8_192) == (len(seen["title"]), len(seen["url"]))
    assert seen["title"].endswith("T…")
    (listed,) = web.do(command="list_pages")["pages"]
    assert (seen["title"], seen["url"]) == (listed["title"], listed["url"])
    web.page = listed["page"]
    ends = [{"condition": "title_contains", "value": "Tend"}]
    assert 500 == len(web.do(command="verify", page=web.page, conditions=ends)["title"])


def test_a_secret_is_typed_and_appears_nowhere(
    web: Browsing, site: Site, bridge: BridgeProcess
) -> None:
    """web7: not in results, files, nor the log, even where the site shows it."""
    web.observe(f"{site.url}/form")
    told = [web.do(**web.act("type", 'textbox "Password"', secret="SITE_PASSWORD"))]
    told += [web.do(**web.act("type", 'textbox "Week"', secret="SITE_PASSWORD"))]
    told += [web.do(**web.act("click", 'button "Save"', evidence=saved("Report saved")))]
    told += [web.look(), web.do(command="list_pages")]
    web.observe(f"{site.url}/named")
    told += [web.do(**web.act("type", 'textbox "Name"', secret="SITE_PASSWORD"))]
    told += [web.do(**web.act("click", 'button "***"'))]

    kept = bridge.run("secretive")
    kept.observe(f"{site.url}/form-get")
    told += [kept.do(**kept.act("type", 'textbox "Week"', secret="SITE_PASSWORD"))]
    told += [kept.do(**kept.act("click", 'button "Find"'))]
    told += [kept.do(command="list_pages")]
    kept.close_all()

    assert ("GET", f"/at/{quote(CANARY, safe='& ').replace(' ', '%20')}") in site.received
    assert CANARY == site.saved[0]["password"] == site.saved[0]["week"], "it was typed"
    assert "***" in str(told), "the site showed it"
    files = [one for one in bridge.folder.rglob("*") if one.is_file()]
    everything = str(told).encode() + b"".join(one.read_bytes() for one in files)
    for spelling in (CANARY.encode(), b"canary-8c1f"):
        assert spelling not in everything


def test_a_secret_is_typed_only_where_it_may_be(bridge: BridgeProcess, site: Site) -> None:
    """web7: a page of another host does not get it, whatever it says."""
    web = bridge.caller("phishing")
    web.observe(site.url.replace("127.0.0.1", "localhost") + "/form")

    failed = web.fails(**web.act("type", 'textbox "Password"', secret="SITE_PASSWORD"))

    assert "permission_denied" == failed.code
    web.observe(f"{site.url}/foreign")
    web.do(command="verify", page=web.page, conditions=saved("Week"))
    web.look()
    within = web.fails(**web.act("type", 'textbox "Password"', secret="SITE_PASSWORD"))
    assert "permission_denied" == within.code, "the page may have it, the page within may not"
    web.close_all()


def test_only_this_user_can_open_the_socket(bridge: BridgeProcess) -> None:
    assert 0o600 == bridge.socket.stat().st_mode & 0o777
    assert 0o700 == (bridge.folder / "browser").stat().st_mode & 0o777


def test_evidence_that_comes_late_settles_an_act(web: Browsing, site: Site) -> None:
    """web9, rec31: the same page is looked at once more; what it says in words is no receipt."""
    web.observe(f"{site.url}/form-held")
    click = web.act("click", 'button "Save"', evidence=saved("Report saved"), wait_ms=300)
    with pytest.raises(WebUseFailed):
        web.do("late", **click)
    with BridgeClient(web.bridge.socket) as client:
        before = client.settle(web.as_caller("late"))
        site.hold.set()
        until(lambda: (client.settle(web.as_caller("late")) or before).outcome == "confirmed", 10)
    assert before is not None
    assert ("unknown", 1) == (before.outcome, len(site.saved))


def test_every_code_is_in_the_documents_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "browser.md").read_text()
    table = text.partition("## Failures")[2].partition("## Security")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    assert sorted(FAILURE_CODES) == sorted(re.findall(r"`(\w+)`", "".join(rows)))
