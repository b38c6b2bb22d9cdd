"""
Schedules, created by command, client and asynchronous client, fired by real workers, some of which
are killed at the worst moments.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mulligan import AsyncClient, Workflow
from mulligan.cli import main
from mulligan.errors import InvalidInput, RunUnknown, ScheduleExists, ScheduleUnknown
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import ScheduleCompacted, ScheduleTerms
from mulligan.events.keys import Keys
from mulligan.events.payload import Payload
from mulligan.events.redis_connection import connect
from mulligan.events.schedules import schedule_stream
from mulligan.events.store import Append, AsNew, Move
from mulligan.events.tasks import run_task
from mulligan.projections.history import problems
from mulligan.settings import Settings
from mulligan.testing.waiting import until
from tests.conftest import PROBE

pytestmark = pytest.mark.server

GLANCE = str(PROBE / "glance.yaml")
YEARLY = "0 0 1 1 *"
DAY_MS = 86_400_000
HERE_ONLY = """
from mulligan import Workflow
flow = Workflow('only')
flow.function('a', 'here_only:step')
def step(): return 1
"""


@pytest.fixture
def desk(probe: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", probe.url)
    return probe


def mulligan(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["schedule", *arguments])


def due_since(client: Any, name: str, flow: str = "glance", **changes: Any) -> str:
    """A schedule whose workers were away for two years and that is due now; the run it asks for."""
    now = datetime.now(UTC)
    terms = {"cron": YEARLY, "timezone": "UTC", "workflow": flow, **changes}
    given = {"name": "probe"}
    client.schedules.create("model", str(PROBE / f"{flow}.yaml"), given, cron=YEARLY)
    kept = client.store.read(schedule_stream("model"))[-1]
    client.schedules.remove("model")
    stream = schedule_stream(name)
    compacted = ScheduleCompacted(
        terms=ScheduleTerms(**{"code_path": kept.data.terms.code_path, **terms}),
        input=Payload.of(given),
        definition=Payload.of(client.value(kept.run, kept.data.definition)),
        status="active",
        created_ms=0,
        cursor_ms=kept.time_ms - 2 * 365 * DAY_MS,
    )
    client.store.append(
        Append(
            run=stream,
            op="two-years-ago",
            writer=AsNew("d"),
            events=(NewEvent(compacted),),
            moves=(Move(run_task(stream), "ready"),),
        )
    )
    return f"{name}@{now.year}0101T000000Z"


def settled(client: Any, name: str) -> Any:
    """A schedule's view once nothing is left to ask for."""

    def is_settled() -> bool:
        firings = client.schedules.show(name).firings
        return bool(firings) and all(one.outcome != "open" for one in firings)

    until(is_settled, 30.0, lambda: str(client.schedules.show(name)))
    return client.schedules.show(name)


@pytest.mark.parametrize(
    "crash_at",
    [
        "schedule/append.after:1:kill",  # the intent is in the log, its run is not
        "schedule/append.before:3:kill",  # the run is there, its receipt is not
    ],
)
def test_worker_killed_between_intent_and_receipt_leaves_one_run(desk: Any, crash_at: str) -> None:
    run = due_since(desk.client, "yearly")
    first = desk.worker(crash_at, lease_ms=1_000)
    until(lambda: not first.alive, 30.0, first.log)
    desk.worker(lease_ms=1_000)
    shown = settled(desk.client, "yearly")
    assert desk.client.result(run, timeout_s=30) is not None
    assert [name for name, _ in desk.client.store.runs()] == [run]
    assert desk.done(run) == {"glance": 1}
    assert [(one.run, one.outcome) for one in shown.firings if one.run] == [(run, "requested")]
    assert not problems(desk.events(run))


def is_timed(desk: Any, name: str) -> bool:
    """Whether the due set wakes a schedule at its next moment."""
    with connect(desk.url) as server:
        scores = dict(server.zrange(Keys(0).due, 0, -1, withscores=True))
    next_ms = desk.client.schedules.show(name).next_ms[0]
    return bool(abs(scores.get(f"schedule:{name}/".encode(), 0) - next_ms) < 1_000)


def test_two_workers_fire_once_and_an_outage_is_made_up_for_by_the_policy(
    desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [due_since(desk.client, f"yearly{number}", tenant="acme") for number in range(5)]
    none = due_since(desk.client, "none", catch_up="none")
    due_since(desk.client, "busy", "signals")
    busy = desk.client.schedules.run_now("busy", key="k")
    (tmp_path / "here_only.py").write_text(HERE_ONLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    desk.client.schedules.create("tick", "here_only:flow", cron="0 * * * *")
    desk.worker()
    desk.worker(folder=tmp_path)
    until(lambda: len(desk.client.store.workers()) == 2, 30.0, desk.told)
    here = desk.client.schedules.run_now("tick", key="k")
    for run in runs:
        until(lambda run=run: desk.client.store.row(run) is not None, 30.0, desk.told)
        state = desk.wait(run)
        assert (state.status, state.tenant) == ("completed", "acme")
    assert desk.done() == {"glance": 5}
    shown = settled(desk.client, "none")
    assert [(one.outcome, one.reason, one.count) for one in shown.firings] == [
        ("skipped", "missed", 2)
    ]
    assert desk.client.store.row(none) is None
    until(lambda: is_timed(desk, "tick"), 30.0, desk.told)
    settled(desk.client, "tick")  # one of the workers has that workflow, whoever was first
    assert desk.client.result(here, timeout_s=30) == 1
    skipped = settled(desk.client, "busy").firings[0]
    assert (skipped.reason, busy in skipped.detail) == ("overlap", True)
    found = sorted(name for name, _ in desk.client.store.runs())
    assert found == sorted([*runs, busy, here])


def test_commands_from_creation_to_removal(
    desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = mulligan(
        "create", "weekly", GLANCE, "--cron", "0 6 * * 1", "--timezone", "Europe/Berlin",
        "--input", '{"name": "probe"}', "--tag", "report",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert "06:00 CE" in made.stdout
    assert "weekly" in mulligan("list").stdout
    again = mulligan("create", "weekly", GLANCE, "--cron", "0 7 * * 1")
    assert (again.exit_code, "--replace" in again.stderr) == (2, True)

    (tmp_path / "here_only.py").write_text(HERE_ONLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert mulligan("create", "bad", "here_only:flow", "--cron", YEARLY).exit_code == 0
    desk.worker()
    run = mulligan("run-now", "weekly", "--key", "k", "--by", "ann").stdout.strip()
    assert run == mulligan("run-now", "weekly", "--key", "k").stdout.strip() == "weekly@k"
    until(lambda: desk.client.store.row(run) is not None, 30.0, desk.told)
    state = desk.wait(run)
    assert (state.status, state.tags) == ("completed", ("report", "schedule:weekly"))
    settled(desk.client, "weekly")
    assert "weekly@k completed (by ann)" in mulligan("show", "weekly").stdout
    shown = json.loads(mulligan("show", "weekly", "--json").stdout)
    assert (len(shown["next_ms"]), shown["input"]) == (5, {"name": "probe"})

    # The module is not where the worker is: that is told, and all else goes on.
    mulligan("run-now", "bad")
    (firing,) = settled(desk.client, "bad").firings
    assert (firing.outcome, firing.reason) == ("skipped", "unusable")
    assert "here_only" in mulligan("show", "bad").stdout
    assert mulligan("remove", "bad").exit_code == 0

    paused = json.loads(mulligan("pause", "weekly", "--reason", "holidays", "--json").stdout)
    assert paused == {
        "kind": "schedule_changed", "schedule": "weekly", "action": "pause", "changed": True,
    }  # fmt: skip
    assert "paused (holidays)" in mulligan("show", "weekly").stdout
    assert "was paused before" in mulligan("pause", "weekly").stderr
    assert mulligan("resume", "weekly").exit_code == 0
    assert mulligan("remove", "weekly").exit_code == 0
    assert mulligan("show", "weekly").exit_code == 2
    assert "no schedules" in mulligan("list").stderr


def test_asynchronous_client_and_what_is_refused(desk: Any) -> None:
    async def scheduled() -> list[bool]:
        async with AsyncClient(Settings(redis_url=desk.url)) as client:
            flow = Workflow("later")
            flow.wait("paid", "payment")
            terms = {"cron": "*/5 * * * *", "overlap": "allow"}
            changed = [await client.schedules.create("pay", flow, **terms) for _ in range(2)]
            shown = await client.schedules.show("pay")
            assert (shown.source, shown.next_ms[1] - shown.next_ms[0]) == (None, 300_000)
            assert [row.name for row in (await client.schedules.list()).schedules] == ["pay"]
            changed += [await client.schedules.pause("pay"), await client.schedules.resume("pay")]
            assert await client.schedules.run_now("pay", key="k") == "pay@k"
            with pytest.raises(ScheduleExists):
                await client.schedules.create("pay", flow, cron="*/6 * * * *")
            return [*changed, await client.schedules.remove("pay")]

    assert asyncio.run(scheduled()) == [True, False, True, True, True]
    schedules = desk.client.schedules
    for terms, told in (
        ({"cron": "0 6 * *"}, "five fields"),
        ({"cron": YEARLY, "timezone": "Mars/Olympus"}, "IANA"),
        ({"cron": YEARLY, "overlap": "queue"}, "skip or allow"),
    ):
        with pytest.raises(InvalidInput, match=told):
            schedules.create("x", GLANCE, {}, **terms)
    for name in ("a b", "-x", ""):
        with pytest.raises(InvalidInput, match="schedule's name"):
            schedules.create(name, GLANCE, {}, cron=YEARLY)
    for refused in (lambda: schedules.pause("nobody"), lambda: schedules.show("nobody")):
        with pytest.raises(ScheduleUnknown):
            refused()
    with pytest.raises(InvalidInput, match="form of a moment"):
        schedules.run_now("pay", key="20261207T060000Z")
    with pytest.raises(RunUnknown):
        desk.client.status("schedule:pay")
    with pytest.raises(RunUnknown):
        list(desk.client.events("schedule:pay"))
    assert list(desk.client.store.runs()) == []
