"""
Signals, sent by command, client, asynchronous client and over real HTTP to runs on real workers,
some of which are killed while nodes wait.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mulligan import AsyncClient
from mulligan.cli import main
from mulligan.errors import InvalidInput
from mulligan.projections.history import problems
from mulligan.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture
def desk(probe: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", probe.url)
    return probe


def mulligan(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def waits(probe: Any, run: str) -> Any:
    return probe.until(run, lambda state: state.reason == "awaiting_signal" and not state.active)


def test_signal_is_kept_and_taken_over_kills_and_restarts(desk: Any) -> None:
    """One is sent while nobody works, one while nodes wait; a wait that is over ends itself."""
    early = desk.enqueue("early", flow="signals")
    sent = mulligan("signal", early, "found", "--data", '{"found": 1}', "--key", "a", "--json")
    assert json.loads(sent.stdout) == {
        "kind": "signalled", "run": early, "name": "found", "key": "a", "changed": True,
    }  # fmt: skip
    waiting = desk.enqueue("waiting", flow="signals")
    worker = desk.worker("run/append.before:3:kill")
    waits(desk, waiting)
    assert desk.wait(early).output.value == {"name": "probe", "found": 1}
    shown = mulligan("status", waiting).stdout
    assert "gather waits for the signal 'found'" in shown
    assert f"mulligan signal {waiting} found --data" in shown

    worker.kill()
    assert desk.client.signal(waiting, "found", {"found": 2}, key="b") is True
    desk.worker()
    assert desk.client.result(waiting, timeout_s=30) == {"name": "probe", "found": 2}
    assert "SignalTimedOut" in desk.types(waiting)
    assert "no signal 'never' came in time" in mulligan("trace", waiting).stdout
    assert desk.done(waiting) == {"total": 1}
    assert not problems(desk.events(waiting))


def test_every_way_to_send_knows_a_key_again_and_refuses_before_it_appends(desk: Any) -> None:
    run = desk.enqueue(flow="signals")

    async def send(**data: Any) -> bool:
        async with AsyncClient(Settings(redis_url=desk.url)) as client:
            return await client.signal(run, "found", data, key="k")

    assert asyncio.run(send(found=4)) is True
    assert asyncio.run(send(found=4)) is False
    again = mulligan("signal", run, "found", "--data", '{"found": 4}', "--key", "k")
    assert (again.exit_code, "was received before" in again.stderr) == (0, True)
    before = desk.types(run)
    for arguments, told in [
        (("found", "--data", '{"found": 5}', "--key", "k"), "another signal with the key 'k'"),
        (("found", "--data", '{"found": "x"}'), "do not fit the schema of node 'gather'"),
        (("fuond",), "did you mean 'found'?"),
        (("found", "--data", "{"), "neither a file nor JSON"),
        (("found", "--key", ""), "key '' is none"),
    ]:
        refused = mulligan("signal", run, *arguments)
        assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    assert desk.types(run) == before
    desk.client.cancel(run)
    with pytest.raises(InvalidInput, match="waits for nobody any more"):
        desk.client.signal(run, "found", {"found": 5})
    desk.worker()
    assert desk.wait(run).status == "cancelled"
    assert mulligan("signal", run, "found", "--data", '{"found": 6}').exit_code == 2
