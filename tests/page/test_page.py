"""The page in a real Chromium: seen, used with the keyboard, and told what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mulligan import Workflow
from mulligan.events.deltas import Delta
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    ModelRequested,
    NodePaused,
    NodeReady,
    NodeStarted,
    RunPaused,
    RunStarted,
    SignalAwaited,
)
from mulligan.events.store import Append, ByVersion
from mulligan.projections.rows import SUMMARIES
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess
from mulligan.web.access import Access
from mulligan.web.catalogue import Catalogue
from tests.http.conftest import Api
from tests.page.conftest import Opens, focused, pages, press_until

pytestmark = pytest.mark.server

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
TOKEN = "t" * 40
HOSTILE = "<img src=x onerror='window.pwned = 1'><script>window.pwned = 1</script> canary-51"
QUESTIONS = [
    {
        "id": "leaf",
        "header": "Leaf",
        "question": "Which leaf?",
        "options": [
            {"label": "green", "description": "fresh"},
            {"label": HOSTILE[:60], "description": ""},
        ],
    }
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def turn(rounds: int, **said: Any) -> dict[str, Any]:
    return {"match": {"rounds": rounds}, "times": "always", **said}


def asked(api: Api, run: str, **options: Any) -> str:
    """A run that nobody works within the hour."""
    body = {"workflow": "ask", "input": {"name": "tea"}, "run_id": run, "delay_ms": 3_600_000}
    body |= options
    return str(api.post("/runs", body, 202)["run"])


def unreloaded(page: Page) -> Callable[[], bool]:
    """Whether the page is still the one that it is now."""
    page.evaluate("window.same = true")
    return lambda: bool(page.evaluate("window.same === true"))


# --- A run, with the keyboard alone --------------------------------------------------------------


def test_from_enqueue_to_decision_with_the_keyboard(
    api: Api, model: ScriptedModel, worker: WorkerProcess, opens: Opens
) -> None:
    model.play(
        {
            "turns": [
                turn(0, tool_calls=[call("ask_user_question", questions=QUESTIONS)]),
                turn(1, tool_calls=[call("look"), call("send")]),
                turn(2, json={"found": 3}),
            ]
        }
    )
    page = opens()
    same = unreloaded(page)
    keys = page.keyboard

    press_until(page, "New run", "link")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="New run")).to_be_focused()
    press_until(page, "Workflow", "combobox")
    keys.type("ask")
    press_until(page, "Input", "textbox")
    keys.press("Control+A")
    keys.type('{"name": ')
    press_until(page, "Ask for the run", "button")
    keys.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This is no JSON")
    assert focused(page) == ("textbox", "Input")
    keys.press("Control+A")
    keys.type('{"name": "tea"}')
    press_until(page, "Ask for the run", "button")
    keys.press("Enter")
    page.get_by_role("heading", name=re.compile("^ask-")).wait_for()

    page.get_by_role("heading", name="gather asks").wait_for()
    press_until(page, "green fresh", "radio")
    keys.press("Space")
    press_until(page, "Answer …", "button")
    keys.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("it can't be changed afterwards")
    press_until(page, "Your name", "textbox")
    keys.press("Control+A")
    keys.type("ann")
    keys.press("Enter")
    expect(page.get_by_role("status")).to_have_text(re.compile("Answered|paused|running"))

    page.get_by_role("heading", name="gather wants to call send").wait_for()
    press_until(page, "Approve …", "button")
    keys.press("Enter")
    expect(dialog).to_contain_text("is run once")
    expect(dialog).to_contain_text("can't be taken back")
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    assert focused(page) == ("button", "Approve …"), "nothing was done, and nobody lost their place"
    keys.press("Enter")
    press_until(page, "Approve", "button")
    keys.press("Enter")

    expect(page.locator("#state")).to_contain_text("completed")
    expect(page.get_by_role("region", name="Output", exact=True)).to_contain_text('"found": 3')
    assert same()
    run = page.get_by_role("heading", level=1).inner_text()
    decided = {one.type: one.data for one in api.client.events(run)}
    assert decided["InputProvided"].by == "ann"  # type: ignore[attr-defined]
    assert decided["ToolApproved"].by == "ann"  # type: ignore[attr-defined]
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline).to_contain_text("gather.2.2: approved by ann")
    expect(page.get_by_role("region", name="Recovery")).to_contain_text("no extra attempts")


# --- The list ------------------------------------------------------------------------------------


def test_the_list_is_live(api: Api, opens: Opens) -> None:
    asked(api, "live-1", tags=["shown"])
    page = opens("?tag=shown")
    same = unreloaded(page)
    row = page.get_by_role("row").filter(has_text="live-1")
    expect(row).to_contain_text("queued")
    expect(page.locator("#connection")).to_have_text("live")
    page.get_by_role("link", name="live-1").focus()

    api.client.cancel("live-1")
    expect(row).to_contain_text(re.compile("cancel"))
    assert focused(page) == ("link", "live-1"), "who stood there stands there still"
    asked(api, "live-2", tags=["shown"])
    expect(page.get_by_role("row").nth(1)).to_contain_text("live-2")
    assert same()


def test_filters_stand_in_the_address(api: Api, opens: Opens) -> None:
    asked(api, "filtered", tags=["eu", "vip"])
    page = opens()
    page.get_by_label("queued").check()
    page.get_by_label("Tags").fill("eu, vip")
    page.get_by_label("Requested within").select_option("2h")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.url.endswith("#/?status=queued&tag=eu&tag=vip&since=2h")
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_label("Tags")).to_have_value("eu, vip")
    page.get_by_label("Tags").fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No run is like that.")).to_be_visible()


def test_ten_thousand_runs_are_shown_a_page_at_a_time(api: Api, chromium: Browser) -> None:
    seed_rows(api, 10_000)
    with closing(Api(api.client, Access(), Catalogue())) as other, pages(chromium) as opened:
        page = opened(f"{other.url}/#/?workflow=seeded")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(100)
        expect(page.get_by_text("100 runs, and 9,900 older ones")).to_be_visible()
        first = rows.first.inner_text()
        page.get_by_role("link", name="Older").click()
        expect(page.get_by_text("100 runs, and 9,800 older ones")).to_be_visible()
        expect(rows).to_have_count(100)
        assert rows.first.inner_text() != first
        page.get_by_role("link", name="Newest").click()
        expect(page.get_by_text("100 runs, and 9,900 older ones")).to_be_visible()


def seed_rows(api: Api, count: int) -> None:
    """Rows of runs that ended long ago, as the projector would have stored them."""
    api.get("/runs", params={"limit": 1})  # so that there is a row, and a checkpoint
    store = api.client.store
    checkpoint = store.checkpoint(SUMMARIES.name, 0)
    rows = {
        f"seeded-{number:05}": json.dumps(
            {
                "run": f"seeded-{number:05}",
                "version": 9,
                "status": "completed",
                "workflow": "seeded",
                "requested_ms": 1_700_000_000_000 + number,
                "started_ms": 1_700_000_000_100 + number,
                "ended_ms": 1_700_000_009_000 + number,
                "nodes": {"completed": 3},
            }
        ).encode()
        for number in range(count)
    }
    assert store.commit_rows(
        SUMMARIES.name, 0, expected=checkpoint, checkpoint=checkpoint, rows=rows
    )


# --- A run ---------------------------------------------------------------------------------------


def test_what_models_say_is_shown_as_text_wherever_it_comes(api: Api, opens: Opens) -> None:
    """An output, a question, a tag, live output: nothing of it becomes markup."""
    run = asked(api, "hostile", tags=[HOSTILE])
    say(
        api,
        run,
        NewEvent(RunStarted()),
        NewEvent(NodeStarted(), "gather", 1),
        NewEvent(
            ModelRequested(
                request_id="gather#1",
                invocation="gather",
                turn=1,
                mode="tool",
                model=HOSTILE,
                digest="",
                sent={},
            ),
            "gather",
            1,
        ),
    )
    page = opens(f"runs/{run}")
    live = page.get_by_role("region", name="Live output", exact=True)
    expect(page.locator("#connection")).to_have_text("live")
    until(lambda: said(api, run) and live.get_by_text("canary-51").count(), 10.0)
    page.get_by_role("region", name="Events").get_by_text("ModelRequested").first.click()
    expect(page.get_by_role("region", name="Events").locator("pre").first).to_contain_text(
        HOSTILE[:40]
    )
    expect(page.locator(".facts")).to_contain_text(HOSTILE)
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.pwned") is None
    page.get_by_role("link", name="Runs").first.click()
    expect(page.get_by_role("row").filter(has_text="hostile").first).to_contain_text(HOSTILE)
    assert page.evaluate("window.pwned") is None


def said(api: Api, run: str) -> bool:
    """Live output, to whoever listens by now."""
    if run in api.client.deltas.listened([run]):
        api.client.deltas.publish(
            Delta(
                run=run,
                node="gather",
                invocation="gather",
                attempt=1,
                request_id="gather#1",
                kind="text",
                offset=0,
                text=HOSTILE,
            )
        )
    return True


def say(api: Api, run: str, *events: NewEvent) -> None:
    row = api.client.store.row(run)
    assert row is not None
    api.client.store.append(
        Append(run=run, op=f"{run}{row.version}", writer=ByVersion(row.version), events=events)
    )


def test_repair_is_plotted_and_its_edits_are_diffs(
    recorded: Callable[..., str], opens: Opens
) -> None:
    page = opens(f"runs/{recorded('repaired')}")
    repair = page.get_by_role("region", name="Repair", exact=True)
    plot = repair.get_by_role("img")
    expect(plot).to_have_attribute(
        "aria-label", re.compile(r"Overall score .* after round 0, .*Cost: round 1 ")
    )
    assert plot.locator("circle").count() >= 2
    repair.get_by_text(re.compile("edits? of round")).first.click()
    expect(repair.locator("del, ins").first).to_be_visible()


# --- Decisions -----------------------------------------------------------------------------------


def test_the_api_is_quoted_when_it_says_no(
    api: Api, recorded: Callable[..., str], opens: Opens
) -> None:
    run = recorded("paused")
    page = opens(f"runs/{run}")
    page.get_by_role("button", name="Resume …").click()
    expect(page.get_by_role("dialog")).to_contain_text("a fresh allowance")
    api.client.cancel(run)
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        "it has ended or is being cancelled"
    )


def test_an_unknown_effect_is_settled(api: Api, recorded: Callable[..., str], opens: Opens) -> None:
    run = recorded("reconciled", before="EffectReconciled")
    page = opens(f"runs/{run}")
    card = page.get_by_role("article", name=re.compile("take effect"))
    expect(card.get_by_role("button")).to_have_text(
        ["It succeeded …", "It failed …", "Try it again …"]
    )
    card.get_by_role("button", name="Try it again …").click()
    expect(page.get_by_role("dialog")).to_contain_text("it takes effect twice")
    page.get_by_role("button", name="Don't").click()
    card.get_by_role("button", name="It succeeded …").click()
    page.get_by_label("Result").fill('{"id"')
    page.get_by_role("button", name="It succeeded", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("This is no JSON")
    page.get_by_label("Result").fill('"saved"')
    page.get_by_role("button", name="It succeeded", exact=True).click()
    expect(card).to_have_count(0)
    assert [one.type for one in api.client.events(run)].count("EffectReconciled") == 1


def test_a_draft_is_decided_about(api: Api, recorded: Callable[..., str], opens: Opens) -> None:
    run = recorded("accepted", before="DecisionMade")
    page = opens(f"runs/{run}")
    card = page.get_by_role("article", name=re.compile("the draft did not pass"))
    card.get_by_text("The draft", exact=True).click()
    expect(card.locator("pre")).not_to_be_empty()
    card.get_by_role("button", name="Abort …").click()
    expect(page.get_by_role("dialog")).to_contain_text("no draft is handed on")
    page.get_by_role("button", name="Don't").click()
    card.get_by_role("button", name="Accept …").click()
    page.get_by_role("button", name="Accept", exact=True).click()
    expect(card).to_have_count(0)
    (made,) = [one.data for one in api.client.events(run) if one.type == "DecisionMade"]
    assert made.decision == "accept"  # type: ignore[attr-defined]


# --- Settings ------------------------------------------------------------------------------------


def test_settings_count_for_the_runs_that_are_asked_for_next(api: Api, opens: Opens) -> None:
    before = asked(api, "before-settings")
    page = opens("workflows/ask")
    panel = page.get_by_role("form", name="Workflow settings")
    panel.get_by_label("Overseer's model").fill("big-model")
    panel.get_by_label("Recovery limit").fill("5")
    panel.get_by_label("Wait before a retry", exact=True).fill("soon")
    panel.get_by_role("button", name="Save …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Recovery limit: 0 → 5")
    expect(dialog).to_contain_text("Runs under way keep what they began with")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("retry.backoff")
    page.get_by_role("button", name="Don't").click()

    panel.get_by_label("Wait before a retry", exact=True).fill("2s")
    panel.get_by_role("button", name="Save …").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(panel).to_contain_text("Changed here")
    expect(panel.get_by_label("Recovery limit")).to_have_value("5")
    then = plan_settings(api, asked(api, "after-settings"))
    assert (then.output_repair_model, then.recovery_limit, then.backoff_ms) == (
        "big-model",
        5,
        2_000,
    )
    assert plan_settings(api, before).recovery_limit == 0

    panel.get_by_role("button", name="Take back all changes …").click()
    page.get_by_role("button", name="Take them back").click()
    expect(panel).to_contain_text("As the workflow itself has them")
    assert plan_settings(api, asked(api, "taken-back")).recovery_limit == 0


def plan_settings(api: Api, run: str) -> Any:
    plan = api.client.status(run).plan
    assert plan is not None
    return plan.settings


# --- Who is let in -------------------------------------------------------------------------------


def test_a_token_is_asked_for(api: Api, chromium: Browser) -> None:
    guarded = closing(Api(api.client, Access([TOKEN]), Catalogue()))
    with guarded as strict, pages(chromium) as opened:
        page = opened(f"{strict.url}/")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Token").fill("guessed")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).not_to_be_empty()
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Runs")).to_be_focused()
        page.reload()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert TOKEN not in page.evaluate("JSON.stringify([document.cookie, {...localStorage}])")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


# --- For everybody -------------------------------------------------------------------------------


def test_a_screen_reader_finds_its_way(recorded: Callable[..., str], opens: Opens) -> None:
    page = opens()
    expect(page.locator("body")).to_match_aria_snapshot(
        """
        - link "Skip to content"
        - banner:
          - link "mulligan"
          - navigation "Main":
            - link "Runs"
            - link "New run"
            - link "Workflows"
        - main:
          - region "Runs":
            - heading "Runs" [level=1]
            - search "Filter runs":
              - group "Status"
              - textbox "Workflow"
              - textbox "Tags"
              - combobox "Requested within"
              - button "Filter"
            - region "List of runs":
              - table "Runs, newest first"
            - navigation "Pages"
        - status
        """
    )
    page = opens(f"runs/{recorded('demo')}")
    for part in ("Timeline", "Recovery", "Usage", "Live output", "Events", "Output"):
        expect(page.get_by_role("region", name=part, exact=True)).to_have_count(1)
    expect(page.get_by_role("meter").first).to_have_attribute(
        "aria-valuetext", re.compile("extra attempts used")
    )
    expect(page.get_by_role("list", name="Steps of collect")).to_contain_text("search called")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_both_schemes(
    recorded: Callable[..., str], opens: Opens, scheme: str
) -> None:
    page = opens(f"runs/{recorded('repaired')}", scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) > 380) == (scheme == "light")
    page.get_by_text(re.compile("edits? of round")).first.click()
    assert page.evaluate(CONTRAST, 4.5) == []
    page.goto(page.url.split("#")[0] + "#/")
    page.get_by_role("heading", name="Runs").wait_for()
    assert page.evaluate(CONTRAST, 4.5) == []


def test_a_wait_is_shown_and_its_signal_can_be_sent(api: Api, opens: Opens) -> None:
    flow = Workflow("pay")
    flow.wait("paid", "payment", schema={"type": "object", "required": ["cents"]}, timeout="1h")
    run = api.client.enqueue(flow, run_id="pay-page", delay_ms=3_600_000)
    state = api.client.status(run)
    waits = [
        NewEvent(RunStarted()),
        NewEvent(NodeReady(), node="paid"),
        NewEvent(NodeStarted(), node="paid", attempt=1),
        NewEvent(SignalAwaited(name="payment", timeout_ms=3_600_000), node="paid", attempt=1),
        NewEvent(NodePaused(reason="awaiting_signal", invocation="paid"), node="paid", attempt=1),
        NewEvent(RunPaused(reason="awaiting_signal")),
    ]
    api.client.store.append(
        Append(run=run, op="waits", writer=ByVersion(state.version), events=tuple(waits))
    )
    page = opens(f"runs/{run}")
    page.get_by_role("heading", name="paid waits for the signal payment").wait_for()
    page.get_by_label("Data (JSON)").fill('{"cents": 5}')
    page.get_by_role("button", name="Send it …").click()
    page.get_by_role("dialog").get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Signal payment sent")
    assert api.client.status(run).nodes["paid"].signal is not None


def test_a_schedule_is_shown_paused_and_made_to_run_now(
    api: Api, worker: WorkerProcess, opens: Opens
) -> None:
    flow = Workflow("tea-time")
    flow.wait("poured", "tea")
    api.client.schedules.create("daily-tea", flow, cron="0 17 * * *", timezone="Europe/London")
    page = opens("schedules", scheme="dark")
    row = page.get_by_role("row", name="daily-tea")
    expect(row).to_contain_text("0 17 * * * Europe/London")
    page.get_by_role("link", name="daily-tea").click()
    page.get_by_text("It has not fired yet.").wait_for()
    page.get_by_role("button", name="Run now …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Run now", exact=True).click()
    fired = page.get_by_role("region", name="Latest firings, newest first")
    expect(fired.get_by_role("link", name="daily-tea@")).to_have_count(1)
    page.get_by_role("button", name="Pause …").click()
    dialog.get_by_label("Why").fill(HOSTILE)
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert page.evaluate(CONTRAST, 4.5) == []
    assert api.client.schedules.show("daily-tea").status == "paused"
    page.get_by_role("link", name="All schedules").click()
    page.get_by_role("row", name="daily-tea").wait_for()
    fired_run = api.client.schedules.show("daily-tea").firings[0].run
    api.client.cancel(str(fired_run))
