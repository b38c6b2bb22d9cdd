"""No text of a model and no token in what is told about requests: errors, metrics, logs."""

from __future__ import annotations

import io
import logging
import secrets
from pathlib import Path

from mulligan.events.envelope import NewEvent
from mulligan.events.facts import Cause, ModelFailed, NodeFailed, ToolFailed, ToolOutcomeUnknown
from mulligan.events.store import Append, ByVersion
from mulligan.logs import configure_logs
from mulligan.testing.server import ValkeyServer
from mulligan.web.access import Access
from tests.http.conftest import serving

CANARY = "Canary 7f3a said this"
TOKEN = "canary-token-" + "x" * 30


def test_nothing_that_was_said_or_is_secret_is_told(
    server: ValkeyServer, flow: Path, tmp_path: Path
) -> None:
    """ovr10: over HTTP too."""
    logged = io.StringIO()
    level = logging.getLogger().level
    configure_logs("debug", stream=logged)
    try:
        with serving(server, tmp_path, Access([TOKEN]), flow) as api:
            api.http.headers["Authorization"] = f"Bearer {TOKEN}"
            run = api.client.enqueue(str(flow), {"kind": CANARY})
            said = (
                ModelFailed(
                    request_id="brew#1", invocation="brew", cause=Cause(kind=CANARY, message=CANARY)
                ),
                ToolFailed(call_id="brew.1.1", code=CANARY, message=CANARY),
                ToolOutcomeUnknown(call_id="brew.1.2", evidence=CANARY),
                NodeFailed(code=CANARY, message=CANARY),
            )
            events = tuple(NewEvent(one, node="brew") for one in said)
            append = Append(run=run, op=secrets.token_hex(8), writer=ByVersion(1), events=events)
            api.client.store.append(append)
            told = [api.http.get("/metrics"), api.http.get("/runs"), api.http.get("/session")]
            for path in ("resume", "redrive", "approve", "decide", "reconcile", "answer", "fork"):
                told.append(api.http.post(f"/runs/{run}/{path}", json={"call": "brew.1.1"}))
            told.append(api.http.get("/runs/nobody", headers={"Authorization": f"Bearer {TOKEN}!"}))
            assert 'mulligan_tool_failures_total{reason="other"} 1.0' in told[0].text
            for answer in told:
                assert CANARY not in answer.text, answer.url
                assert TOKEN not in answer.text, answer.url
    finally:
        configure_logs("error", stream=io.StringIO())
        logging.getLogger().setLevel(level)
    assert f"/runs/{run}/resume" in logged.getvalue()
    assert CANARY not in logged.getvalue()
    assert TOKEN not in logged.getvalue()
