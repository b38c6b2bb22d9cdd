"""Runs whose agents browse: workers, the bridge and Chromium are killed, the site counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.client import Client
from mulligan.projections.state import RunState
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from tests.browser.bridge_process import BridgeProcess
from tests.browser.browsing_model import BrowsingModel, saves_the_form
from tests.browser.site import Site

pytestmark = pytest.mark.server

FLOW = Path(__file__).parents[1] / "projects" / "browsing" / "browsing.yaml"


class Desk:
    """A log, a model that browses, and workers that reach a bridge."""

    def __init__(self, url: str, folder: Path, forked: Callable[..., Any]) -> None:
        self.url = url
        self.folder = folder
        self._forked = forked
        self.model = BrowsingModel(saves_the_form(wait_ms=800)).start()
        self.client = Client(Settings(redis_url=url, data_dir=folder, api_base=self.model.url))

    def worker(self, bridge: BridgeProcess, crash_at: str = "") -> Any:
        return self._forked(
            {
                "MULLIGAN_REDIS_URL": self.url,
                "MULLIGAN_API_BASE": self.model.url,
                "MULLIGAN_LEASE_MS": "1000",
                "MULLIGAN_LEASE_MARGIN_MS": "200",
                "MULLIGAN_CRASH_AT": crash_at,
                "MULLIGAN_BROWSER_SOCKET": str(bridge.socket),
            }
        )

    def enqueue(self, url: str, run: str, window: str | None = "main") -> str:
        return self.client.enqueue(str(FLOW), {"url": url}, run_id=run, origin_window=window)

    def wait(self, run: str) -> RunState:
        return self.client.wait(run, timeout_s=40)

    def types(self, run: str) -> list[str]:
        return [event.type for event in self.client.events(run)]

    def effects(self, run: str) -> list[str]:
        return [e.data.effect for e in self.client.events(run) if e.type == "ToolRequested"]

    def close(self) -> None:
        self.client.close()
        self.model.stop()


@pytest.fixture
def desk(
    server: ValkeyServer, bridge: BridgeProcess, tmp_path: Path, forked: Callable[..., Any]
) -> Iterator[Desk]:
    with server.client() as client:
        client.flushall()
    made = Desk(server.url, tmp_path, forked)
    yield made
    made.close()
    bridge.run("tidy").close_all()


@pytest.fixture
def own_bridge(chromium: None, tmp_path: Path) -> Iterator[BridgeProcess]:
    """A bridge that may be killed."""
    started = BridgeProcess(tmp_path / "own", "main")
    yield started
    started.stop()


def test_runs_on_three_workers_share_one_bridge(
    desk: Desk, bridge: BridgeProcess, site: Site
) -> None:
    """web1: several at once; each call has the effect class of its command."""
    for _ in range(3):
        desk.worker(bridge)
    runs = [desk.enqueue(f"{site.url}/form", f"shared-{n}") for n in range(4)]

    states = [desk.wait(run) for run in runs]

    assert ["completed"] * 4 == [state.status for state in states], desk.types(runs[0])
    assert 4 == len(site.saved)
    assert ["read", "write", "write"] == desk.effects(runs[0])


def test_a_run_without_a_window_fails_explicitly(
    desk: Desk, bridge: BridgeProcess, site: Site
) -> None:
    """web3: it is told so, and no other window is taken."""
    desk.worker(bridge)
    desk.model.decides = lambda results, prompt: {"command": "list_pages"} if not results else None

    desk.wait(desk.enqueue(site.url, "windowless", None))

    failed = [one for one in desk.client.events("windowless") if one.type == "ToolFailed"]
    assert ["permission_denied"] == [one.data.code for one in failed]
    assert ("GET", "/") not in site.received


def test_a_worker_killed_between_the_click_and_its_confirmation(
    desk: Desk, bridge: BridgeProcess, site: Site
) -> None:
    """web9, rec31: the act is not repeated; the bridge's receipt says what became of it."""
    worker = desk.worker(bridge)
    run = desk.enqueue(f"{site.url}/form-held", "held")
    until(lambda: site.saved, 30, worker.log)
    worker.end()
    site.hold.set()
    desk.worker(bridge)

    state = desk.wait(run)

    assert ("completed", 1) == (state.status, len(site.saved))
    assert "ToolOutcomeUnknown" in desk.types(run)
    assert ["verify"] == [
        one.data.by for one in desk.client.events(run) if one.type == "EffectReconciled"
    ]


def test_a_confirmation_that_does_not_come_is_for_a_person(
    desk: Desk, bridge: BridgeProcess, site: Site
) -> None:
    """web9: no second click, no success; a fresh observation helps a person to say."""
    desk.worker(bridge)
    run = desk.enqueue(f"{site.url}/form-error", "erring")

    state = desk.wait(run)

    assert ("paused", 1) == (state.status, len(site.saved))
    assert {"reconciliation_required"} == {node.reason for node in state.nodes.values()}
    unknown = next(one for one in desk.client.events(run) if one.type == "ToolOutcomeUnknown")
    person = bridge.caller("person")
    assert "Form" == person.observe(f"{site.url}/form")["title"]
    desk.client.reconcile(run, unknown.data.call_id, "succeeded", result={"saved": True})
    assert ("completed", 1) == (desk.wait(run).status, len(site.saved))


@pytest.mark.parametrize("dies", ["bridge", "chromium"])
def test_what_dies_between_the_click_and_its_confirmation_leaves_it_unknown(
    desk: Desk, own_bridge: BridgeProcess, site: Site, dies: str
) -> None:
    """web9: nothing is submitted twice, by whatever worker, until a person has said."""
    worker = desk.worker(own_bridge)
    run = desk.enqueue(f"{site.url}/form-held", f"killed-{dies}")
    until(lambda: site.saved, 30, worker.log)
    if dies == "bridge":
        own_bridge.kill()
        own_bridge.start()
    else:
        own_bridge.kill_chromium()

    state = desk.wait(run)

    site.hold.set()
    assert ("paused", 1) == (state.status, len(site.saved)), desk.types(run)
    unknown = next(one for one in desk.client.events(run) if one.type == "ToolOutcomeUnknown")
    person = own_bridge.caller("person")
    assert "Form" == person.observe(f"{site.url}/form")["title"], "a fresh observation"
    desk.client.reconcile(run, unknown.data.call_id, "succeeded", result={"saved": True})
    assert ("completed", 1) == (desk.wait(run).status, len(site.saved))


def test_a_function_of_a_workflow_browses_as_a_step_of_its_run(
    desk: Desk, bridge: BridgeProcess, site: Site
) -> None:
    """web9: confirmed, or for a person to say; the function is not called a second time."""
    desk.worker(bridge)
    flow = str(FLOW.with_name("deliver.yaml"))
    good, bad = (
        desk.client.enqueue(flow, {"url": f"{site.url}/{path}"}, origin_window="main")
        for path in ("form", "form-error")
    )

    assert "confirmed" == desk.client.result(good, timeout_s=40)
    state = desk.wait(bad)

    assert "reconciliation_required" == state.nodes["deliver"].reason
    assert 2 == len(site.saved)


def test_a_call_in_words_is_no_call(desk: Desk, bridge: BridgeProcess, site: Site) -> None:
    """web10: JSON in a text that looks like a call, or like a receipt, is neither."""
    desk.worker(bridge)
    told = {"command": "observe", "url": site.url, "outcome": "confirmed", "saved": "yes"}
    desk.model.says = told
    run = desk.enqueue(site.url, "in-words")

    state = desk.wait(run)

    assert "completed" != state.status
    assert "ToolRequested" not in desk.types(run)
    assert ("GET", "/") not in site.received
