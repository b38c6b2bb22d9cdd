"""The API of a log that is encrypted, with the key and without (docs/encryption.md)."""

from __future__ import annotations

from pathlib import Path

from mulligan.events.deltas import Delta
from mulligan.events.payload_keys import new_key
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.web.access import Access
from tests.http.conftest import serving
from tests.http.sse import Stream

CANARY = "canary-7f3a"


def test_events_and_live_output_come_with_the_key_and_are_named_without(
    server: ValkeyServer, flow: Path, tmp_path: Path
) -> None:
    with serving(server, tmp_path, Access(), flow, payload_keys=new_key("some")) as api:
        run = api.client.enqueue(str(flow), {"kind": CANARY})
        with Stream(api.port, f"/runs/{run}/events?deltas=true") as stream:
            records = stream.records()
            first = next(records)
            assert first.data["data"]["input"]["value"] == {"kind": CANARY}
            until(lambda: api.client.deltas.listened([run]) == {run}, 10)
            said = {"node": "brew", "invocation": "brew", "attempt": 1, "request_id": "brew#1"}
            api.client.deltas.publish(Delta(run=run, kind="text", offset=0, text=CANARY, **said))
            assert next(one for one in records if one.event == "delta").data["text"] == CANARY
        assert api.get(f"/runs/{run}")["status"] == "queued"
        assert [one["run"] for one in api.get("/runs")["runs"]] == [run]
    with serving(server, tmp_path, Access(), flow, empty=False) as api:
        with Stream(api.port, f"/runs/{run}/events") as stream:
            told = next(stream.records())
        assert (told.event, told.data["through"]) == ("unreadable", 1)
        assert "the payload key some is not here" in told.data["problem"]
        refused = api.http.get(f"/runs/{run}")
        assert refused.status_code == 500
        assert "the payload key some is not here" in refused.json()["detail"]
        asked = api.http.post("/runs", json={"workflow": "tea", "input": {"kind": "green"}})
        assert "the payload key some is not here" in asked.json()["detail"]
        listed = api.http.get("/runs")
        assert listed.json()["runs"][0]["unreadable"]
        assert CANARY not in refused.text + asked.text + listed.text
