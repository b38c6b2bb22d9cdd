"""
REC-31: a failover that loses the last of the log. A real server is killed and started again from an
older copy of its file; a write whose start was noted outside the log is not repeated, whatever the
log has forgotten, and what was lost is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mulligan.cli import main
from mulligan.events import facts
from mulligan.projections.advice import why
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from tests.conftest import Probe

pytestmark = pytest.mark.server


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(appendonly="yes", appendfsync="always") as server:
        yield server


@pytest.fixture
def noted(kept: ValkeyServer, tmp_path: Path, accounts: Any) -> Iterator[Any]:
    """The probing workflow on a server that can be set back, its writes noted in a folder."""
    probe = Probe(
        kept.url, tmp_path, intents_dir=tmp_path / "intents", lease_ms=1_000, lease_margin_ms=200
    )
    accounts.models.clear()  # a log that has forgotten requests can't account for them
    yield probe
    probe.close()


@pytest.fixture
def work(forked: Callable[..., Any], noted: Any) -> Callable[..., Any]:
    def start(crash_at: str = "", **more: str) -> Any:
        return forked(
            {
                "MULLIGAN_REDIS_URL": noted.url,
                "MULLIGAN_API_BASE": noted.model.url,
                "MULLIGAN_CRASH_AT": crash_at,
                **noted.environment,
                **more,
            }
        )

    return start


def asks_about_its_write(state: RunState) -> bool:
    return (state.status, state.reason) == ("paused", "reconciliation_required")


def test_no_write_is_repeated_by_a_log_that_has_forgotten_it(
    noted: Any, work: Any, kept: ValkeyServer, tmp_path: Path
) -> None:
    # The copy has one run before its write, and nothing of another; both come to their ends then.
    worker = work("model.before:2:stop")
    run, gone, untouched = noted.enqueue("began"), "later", "idle"
    until(lambda: worker.stopped, 30.0, worker.log)
    kept.copy_files(tmp_path / "older")
    worker.wake()
    noted.enqueue(gone)
    for name in (run, gone):
        assert noted.until(name, lambda state: state.ended).status == "completed"
    before = noted.done()
    assert before["send"] == 2
    worker.end()

    kept.set_back(tmp_path / "older")
    told = verify(noted, 6)["problems"]
    noted.enqueue(gone)  # by a producer that got no answer, say
    noted.enqueue(untouched)
    worker = work()
    states = {name: noted.until(name, asks_about_its_write) for name in (run, gone)}

    # It is never repeated on its own, and whoever is asked reads why.
    assert noted.done()["send"] == 2 + noted.done(untouched)["send"]
    for state in states.values():
        (lost,) = state.lost_starts
        assert (lost.call_id, lost.execution) == ("gather.2.1", 1)
        assert "the log was set back, and had lost the start of gather.2.1" in why(state)
    assert ["the log does not know it" in line for line in told[gone]] == [True, False]
    assert "lacks the start of gather.2.1 (execution 1 of probe_steps:send" in told[run][-1]

    # What was not begun goes on, and so do the others once somebody has looked.
    assert noted.until(untouched, lambda state: state.ended).status == "completed"
    noted.client.reconcile(run, "gather.2.1", "succeeded", result="sent, as the other side says")
    noted.client.reconcile(gone, "gather.2.1", "retry")
    for name in (run, gone):
        state = noted.until(name, lambda state: state.ended or asks_about_its_write(state))
        assert state.status == "completed", noted.stuck(name)
        assert problems_of(noted.client.store, name, noted.events(name)) == []
    assert (noted.done(run)["send"], noted.done(gone)["send"]) == (1, 2), "one was allowed again"
    assert set(verify(noted, 6)["problems"]) == {run, gone}
    assert verify(noted, 0, untouched)["problems"] == {}


def verify(noted: Any, code: int, *runs: str) -> Any:
    """What `mulligan verify --json` tells."""
    done = command(noted, "verify", *runs, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def command(noted: Any, *words: str, **variables: str) -> Result:
    environment = {"MULLIGAN_REDIS_URL": noted.url, **noted.environment, **variables}
    return CliRunner().invoke(main, words, env=environment)


def test_a_write_function_is_not_repeated_either(
    noted: Any, work: Any, kept: ValkeyServer, tmp_path: Path
) -> None:
    worker = work("task.claimed:1:stop")
    run = noted.enqueue(flow="publish")
    until(lambda: worker.stopped, 30.0, worker.log)
    kept.copy_files(tmp_path / "older")
    worker.wake()
    assert noted.until(run, lambda state: state.ended).status == "completed"
    worker.end()

    kept.set_back(tmp_path / "older")
    work()
    state = noted.until(run, asks_about_its_write)

    assert noted.done(run)["publish"] == 1
    assert [lost.call_id for lost in state.lost_starts] == ["publish"]
    (paused,) = [e.data for e in noted.events(run) if isinstance(e.data, facts.NodePaused)]
    assert "had lost the start of publish" in paused.detail
    noted.client.reconcile(run, "publish", "succeeded", result="published")
    assert noted.until(run, lambda state: state.ended).status == "completed"
    assert noted.done(run)["publish"] == 1


def test_who_asks_for_synced_intents_is_refused_a_server_that_can_t_promise_them(
    noted: Any, kept: ValkeyServer
) -> None:
    options = {"MULLIGAN_WRITE_INTENTS": "synced"}
    with kept.client() as client:
        client.config_set("appendonly", "no")
        refused = noted.cli("worker", "--processes", "1", **options)
        bad = command(noted, "doctor", **options)
        client.config_set("appendonly", "yes")
        good = command(noted, "doctor", **options)

    assert refused.returncode == 5
    for told in (refused.stderr, bad.stdout):
        assert "MULLIGAN_WRITE_INTENTS=synced" in told
        assert "no append-only file" in told
        assert "appendfsync always" in told
    assert (bad.exit_code, good.exit_code) == (5, 0)
    assert "on the server's disk before they begin" in good.stdout


def test_a_synced_start_is_there_after_its_server_was_killed(
    noted: Any, work: Any, kept: ValkeyServer
) -> None:
    options = {"MULLIGAN_WRITE_INTENTS": "synced", "MULLIGAN_INTENTS_DIR": ""}
    worker = work("tool.after:3:kill", **options)
    run = noted.enqueue()
    until(lambda: not worker.alive, 30.0, worker.log)

    kept.restart()
    work(**options)
    noted.until(run, asks_about_its_write)

    assert noted.done(run)["send"] == 1
    assert problems_of(noted.client.store, run, noted.events(run)) == []
