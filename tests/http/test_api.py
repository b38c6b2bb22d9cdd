"""Runs over HTTP: asked for, listed, looked at, decided about; and what is refused."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mulligan import Workflow
from mulligan.actors.hints import Hints
from mulligan.commands.published import FOLDER
from mulligan.events.facts import RunRequested
from mulligan.projections.summary import RunSummary
from mulligan.testing.server import ValkeyServer
from mulligan.web import metrics
from mulligan.web.access import Access
from tests.http.conftest import Api, serving

TOKEN = "t" * 40
TEA = {"workflow": "tea", "input": {"kind": "green"}}


def fits(shown: Any, name: str) -> Any:
    """What was shown, if a command prints the same shape."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(shown)
    return shown


def test_a_run_is_asked_for_once_and_seen(api: Api) -> None:
    asked = fits(api.post("/runs", {**TEA, "run_id": "one", "tags": ["a"]}, 202), "enqueue")
    assert asked == {"kind": "enqueued", "run": "one"}
    assert api.post("/runs", {**TEA, "run_id": "one"}, 202)["run"] == "one"
    other = {**TEA, "run_id": "one", "input": {"kind": "black"}}
    assert api.refusal("POST", "/runs", json=other) == (409, "run_exists")

    shown = fits(api.get("/runs/one"), "status")
    assert (shown["status"], shown["version"], shown["tags"]) == ("queued", 1, ["a"])
    assert fits(api.get("/runs/one/result"), "run")["output"] is None


def test_a_run_for_later_wakes_nobody_now(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    monkeypatch.setattr(Hints, "send", lambda hints, task, priority: woken.append(task))
    api.post("/runs", {**TEA, "run_id": "later", "delay_ms": 60_000}, 202)
    api.post("/runs", {**TEA, "run_id": "now"}, 202)
    assert woken == ["now/"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'b' * 16}-01"), ("00-none", None)],
)
def test_a_run_links_to_the_span_that_its_request_names(
    api: Api, sent: str, kept: str | None
) -> None:
    asked = api.http.post("/runs", json=TEA, headers={"traceparent": sent})

    (event,) = api.client.events(asked.json()["run"])
    assert isinstance(event.data, RunRequested)
    assert event.data.traceparent == kept


@pytest.mark.parametrize("view", ["trace", "chat", "recovery", "repair-log", "usage"])
def test_a_view_has_the_shape_that_its_command_prints(api: Api, view: str) -> None:
    api.post("/runs", {**TEA, "run_id": "viewed"}, 202)
    assert fits(api.get(f"/runs/viewed/{view}"), view)["run"] == "viewed"
    assert api.refusal("GET", f"/runs/nobody/{view}") == (404, "run_unknown")


def test_a_list_is_read_in_pages_and_by_filter(api: Api) -> None:
    for number in range(7):
        tags = ["even", "paged"] if number % 2 == 0 else ["paged"]
        api.post("/runs", {**TEA, "run_id": f"p{number}", "tags": tags}, 202)
    pages, after = [], {}
    while True:
        page = fits(api.get("/runs", params={"tag": "paged", "limit": 3, **after}), "list")
        pages.append([run["run"] for run in page["runs"]])
        if page["next"] is None:
            break
        assert page["left_off"] == 7 - sum(map(len, pages))
        after = {"after": page["next"]}
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [one for page in pages for one in page] == [
        run["run"] for run in api.get("/runs?tag=paged")["runs"]
    ]
    assert len(api.get("/runs?tag=paged&tag=even")["runs"]) == 4
    assert api.get("/runs?tag=paged&status=completed&status=failed")["runs"] == []
    assert len(api.get("/runs?tag=paged&workflow=tea&since=1h")["runs"]) == 7
    assert api.get("/runs?tag=paged&until=1h")["runs"] == []


@pytest.mark.parametrize(
    "query", ["since=yesterday", "after=nowhere", "after=1:", "limit=0", "status=odd", "limit=x"]
)
def test_a_list_that_can_not_be_is_refused(api: Api, query: str) -> None:
    status, code = api.refusal("GET", f"/runs?{query}")
    assert (status, code in ("invalid_input", "request_invalid")) == (422, True)


def test_people_decide(api: Api) -> None:
    api.post("/runs", {**TEA, "run_id": "decided"}, 202)
    done = fits(api.post("/runs/decided/cancel", {"reason": "no tea"}), "done")
    assert done == {"kind": "done", "run": "decided", "action": "cancel", "changed": True}
    assert api.post("/runs/decided/cancel")["changed"] is False
    assert api.get("/runs/decided")["status"] == "cancelling"
    for action, body in {
        "resume": {},
        "redrive": None,
        "answer": {"answer": "yes"},
        "approve": {"call": "brew.1.1"},
        "deny": {"call": "brew.1.1", "reason": "no"},
        "decide": {"decision": "accept"},
        "reconcile": {"call": "brew.1.1", "outcome": "failed"},
        "fork": {"at_version": 2},
    }.items():
        refused = api.refusal("POST", f"/runs/decided/{action}", json=body)
        assert refused == (422, "invalid_input"), action
        assert api.refusal("POST", f"/runs/nobody/{action}", json=body) == (404, "run_unknown")


def test_a_run_is_forked(api: Api) -> None:
    api.post("/runs", {**TEA, "run_id": "parent"}, 202)
    forked = fits(api.post("/runs/parent/fork", {"at_version": 1, "run_id": "child"}, 202), "fork")
    assert forked["parent"] == "parent"
    assert api.get("/runs/child")["forked_from"] == "parent"


def test_only_workflows_that_are_offered_can_be_asked_for(api: Api, flow: Path) -> None:
    offered = [one["name"] for one in api.get("/workflows")["workflows"]]
    assert {"article", "demo", "tea"} <= set(offered)
    assert offered == sorted(offered)
    for name in (str(flow), "os:system", "tea.yaml", "nope"):
        refused = api.refusal("POST", "/runs", json={"workflow": name})
        assert refused == (404, "workflow_unknown"), name


def test_a_large_value_is_found_by_its_digest(api: Api) -> None:
    api.post("/runs", {**TEA, "run_id": "large", "input": {"kind": "x" * 20_000}}, 202)
    (requested,) = api.client.events("large")
    digest = requested.data.input.digest  # type: ignore[union-attr]
    assert api.get(f"/runs/large/values/{digest}") == {"kind": "x" * 20_000}
    assert api.refusal("GET", f"/runs/large/values/{'0' * 64}") == (404, "value_unknown")


def test_what_does_not_fit_is_told_by_place_and_without_what_was_sent(api: Api) -> None:
    secret = "sk-canary"
    body = {"workflow": "tea", "input": 1, "priority": secret, "tags": [secret, 7], secret[:2]: 1}
    answer = api.http.post("/runs", json=body)
    assert answer.status_code == 422
    assert any(one.startswith("body.tags.1: ") for one in answer.json()["problems"])
    assert secret not in answer.text
    assert api.refusal("POST", "/runs", data={"workflow": "tea"}) == (422, "request_invalid")
    assert "application/json" in api.http.post("/runs", content=json.dumps(TEA)).text
    no_text = json.dumps({**TEA, "input": {"kind": "\ud800"}}).encode()
    for content, refused in (
        (b"{", (422, "request_invalid")),
        (b"[" * 100_000, (400, "request_invalid")),
        (no_text, (422, "invalid_input")),
    ):
        as_json = {"content": content, "headers": {"Content-Type": "application/json"}}
        assert api.refusal("POST", "/runs", **as_json) == refused


def test_strangers_are_refused(api: Api) -> None:
    asked = {"json": {**TEA, "run_id": "stranger"}}
    for headers, code in (
        ({"Origin": "http://evil.example"}, (403, "foreign_origin")),
        ({"Origin": "null"}, (403, "foreign_origin")),
        ({"Sec-Fetch-Site": "same-site"}, (403, "foreign_origin")),
        ({"Host": "evil.example"}, (421, "foreign_host")),
    ):
        assert api.refusal("POST", "/runs", headers=headers, **asked) == code
    assert api.refusal("GET", "/runs/stranger") == (404, "run_unknown")
    assert api.post("/runs", {**TEA, "run_id": "friend"}, 202)
    headers = api.http.get("/runs", headers={"Origin": api.url}).headers
    assert "access-control-allow-origin" not in headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


def test_a_body_is_bounded_in_size(api: Api) -> None:
    declared = {"Content-Length": str(17 * 1024 * 1024), "Content-Type": "application/json"}
    with socket.create_connection(("127.0.0.1", api.port)) as raw:
        head = "".join(f"{name}: {value}\r\n" for name, value in declared.items())
        raw.sendall(f"POST /runs HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        assert b" 413 " in raw.recv(1_000), "refused before it was sent"
    chunks = (b" " * 1_000_000 for _ in range(17))
    answer = api.http.post("/runs", content=chunks, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_a_body_that_does_not_come_is_not_waited_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.web.guard.BODY_TIMEOUT_S", 0.05)
    with socket.create_connection(("127.0.0.1", api.port)) as raw:
        raw.sendall(
            b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 10\r\n\r\n{"
        )
        raw.settimeout(10)
        assert b" 408 " in raw.recv(1_000)


def test_an_error_that_is_not_ours_tells_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said = "canary: what a model said"

    def breaks(run: str) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(api.client, "status", breaks)
    answer = api.http.get("/runs/any")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "canary" not in answer.text + caplog.text


def test_health_and_readiness(server: ValkeyServer, tmp_path: Path) -> None:
    with ValkeyServer() as own, serving(own, tmp_path, Access()) as api:
        assert api.get("/healthz")["status"] == "ok"
        assert api.get("/readyz")["warnings"]
        own.kill()
        assert api.get("/healthz")["status"] == "ok"
        assert api.refusal("GET", "/readyz") == (503, "store_unavailable")
        answer = api.http.post("/runs", json={"workflow": "demo", "input": {"topic": "tea"}})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        own.start()
        assert api.get("/readyz")


def test_a_token_lets_in_and_a_cookie_stands_for_it(server: ValkeyServer, tmp_path: Path) -> None:
    with serving(server, tmp_path, Access([TOKEN])) as api:
        assert api.get("/healthz")
        assert api.http.get("/runs").headers["www-authenticate"] == "Bearer"
        assert api.refusal("GET", "/runs") == (401, "token_missing")
        assert api.get("/runs", headers={"Authorization": f"Bearer {TOKEN}"})["runs"] == []
        needs = {"kind": "session", "needs_token": True, "signed_in": False}
        assert api.get("/session") == needs
        wrong = api.refusal("POST", "/session", json={"token": "wrong"})
        assert wrong == (401, "token_unknown")

        given = api.http.post("/session", json={"token": TOKEN})
        cookie = given.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert api.get("/session")["signed_in"] is True
        assert api.get("/runs")["runs"] == []
        assert api.refusal("GET", "/runs", headers={"Origin": "http://evil.example"})[0] == 403
        api.http.delete("/session")
        assert api.refusal("GET", "/runs") == (401, "token_missing")
        schema = api.get("/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
        assert schema["paths"]["/runs"]["get"]["security"] == [{"token": []}]


def test_without_a_bridge_browsing_is_an_error_of_its_own(api: Api) -> None:
    """web6: the request is carried out, the command is not."""
    answered = api.post("/api/web-use", {"command": "list_pages"})
    assert (answered["is_error"], answered["code"]) == (True, "desktop_unavailable")
    assert answered["session"]
    assert api.refusal("POST", "/api/web-use", json=["list_pages"]) == (422, "request_invalid")


def test_openapi_names_what_it_describes(api: Api) -> None:
    """Every reference leads somewhere, and every route is there."""
    schema = api.get("/openapi.json")
    names = set(schema["components"]["schemas"])
    named = set(re.findall(r"#/components/schemas/([^\"]+)", json.dumps(schema)))
    assert named <= names
    assert {"/runs/{run}/events", "/api/web-use", "/readyz"} <= set(schema["paths"])
    assert "security" not in schema["paths"]["/runs"]["get"], "no token is asked for"


def test_settings_count_for_runs_that_are_asked_for_later(api: Api) -> None:
    path = "/workflows/tea/settings"
    before = api.get(path)
    assert before["changed"] == {}
    assert (before["settings"]["recovery_limit"], before["settings"]["retry"]["backoff"]) == (
        0,
        "500ms",
    )
    api.post("/runs", {**TEA, "run_id": "earlier"}, 202)
    change = {"outputRepairModel": "big", "recovery_limit": 5, "retry": {"backoff": "2s"}}
    answer = api.http.put(path, json=change)
    assert answer.status_code == 200, answer.text
    assert answer.json() == api.get(path)
    assert answer.json()["settings"]["retry"] == {"backoff": "2000ms", "backoff_max": "30000ms"}
    assert answer.json()["changed"]["outputRepairModel"] == "big"

    api.post("/runs", {**TEA, "run_id": "later"}, 202)
    limits = {run: api.client.status(run).plan.settings for run in ("earlier", "later")}  # type: ignore[union-attr]
    assert (limits["earlier"].recovery_limit, limits["later"].recovery_limit) == (0, 5)
    assert limits["later"].output_repair_model == "big"
    assert limits["later"].backoff_ms == 2_000

    assert api.http.put(path, json={}).json() == before
    assert api.refusal("GET", "/workflows/nope/settings") == (404, "workflow_unknown")
    for bad in ({"recovery_limit": -1}, {"api_base": "http://x"}, {"outputRepairTimeout": "11m"}):
        assert api.refusal("PUT", path, json=bad)[0] == 422
    assert api.get(path) == before


def test_metrics_tell_what_the_rows_say(api: Api) -> None:
    api.post("/runs", {**TEA, "run_id": "measured"}, 202)
    api.post("/runs/measured/cancel")
    answer = api.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if line[0] != "#")
    statuses = Counter(run.get("status", "queued") for run in api.get("/runs?limit=1000")["runs"])
    for status, number in statuses.items():
        assert float(lines[f'mulligan_runs{{status="{status}"}}']) == number
    assert float(lines["mulligan_workers"]) == 0
    assert float(lines["mulligan_unknown_effects"]) == 0
    assert float(lines["mulligan_queue_messages"]) > 0


def test_a_signal_is_told_once_per_key_and_refused_before_it_is_kept(api: Api) -> None:
    flow = Workflow("pay")
    flow.wait("paid", "payment", schema={"type": "object", "required": ["cents"]})
    api.client.enqueue(flow, run_id="pay-1")
    body = {"name": "payment", "data": {"cents": 5}, "key": "evt-1"}
    assert fits(api.post("/runs/pay-1/signals", body), "signal")["changed"] is True
    assert api.post("/runs/pay-1/signals", body)["changed"] is False
    for wrong in (
        {"name": "payment", "data": {}},
        {"name": "paid"},
        {**body, "data": {"cents": 6}},
    ):
        answer = api.http.post("/runs/pay-1/signals", json=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), answer.text
    assert len(list(api.client.events("pay-1"))) == 2


def test_tenants_are_limited_listed_and_refused_with_a_time_to_come_back(api: Api) -> None:
    limits = {"runs": 1, "queued": 1, "requests": "none"}
    put = api.http.put("/tenants/acme", json=limits)
    assert fits(put.json(), "tenants")["tenants"][0]["own"] == limits
    for run in ("t1", "t2"):
        api.post("/runs", {**TEA, "run_id": run, "tenant": "acme"}, 202)

    refused = api.http.post("/runs", json={**TEA, "tenant": "acme"})
    assert (refused.status_code, refused.json()["code"]) == (429, "tenant_queue_full")
    assert int(refused.headers["retry-after"]) > 0
    (shown,) = fits(api.get("/tenants"), "tenants")["tenants"]
    assert (shown["runs"], shown["runs_waiting"]) == (1, 1)
    listed = api.get("/runs", params={"tenant": "acme"})["runs"]
    assert {row["run"]: row.get("awaits_turn", False) for row in listed} == {
        "t1": False,
        "t2": True,
    }
    assert "tenant acme" in fits(api.get("/runs/t2"), "status")["waits"]
    told = api.http.get("/metrics").text
    assert 'mulligan_tenant_runs{state="waiting",tenant="acme"} 1.0' in told

    assert api.refusal("PUT", "/tenants/+", json={"requests": 1}) == (422, "invalid_input")
    assert api.refusal("PUT", "/tenants/acme", json={"runs": 0}) == (422, "request_invalid")
    assert api.refusal("POST", "/runs", json={**TEA, "tenant": "a b"}) == (422, "request_invalid")


def test_series_of_metrics_do_not_grow_with_the_names_of_tenants() -> None:
    rows = [RunSummary(run=f"r{n}", tenant=f"t{n}", awaits_turn=n % 2 == 0) for n in range(500)]

    (metric,) = metrics._of_tenants(rows)

    assert len(metric.samples) <= metrics.MOST_TENANTS + 2
    assert sum(sample.value for sample in metric.samples) == 500


def test_a_schedule_from_creation_to_removal(api: Api) -> None:
    body = {"name": "tea-time", "workflow": "tea", "input": {"kind": "green"}, "cron": "0 17 * * *"}
    assert fits(api.post("/schedules", body), "schedule-changed")["changed"] is True
    assert api.post("/schedules", body)["changed"] is False
    shown = fits(api.get("/schedules/tea-time"), "schedule")
    assert (shown["workflow"], len(shown["next_ms"])) == ("tea", 5)
    found = fits(api.get("/schedules"), "schedule-list")["schedules"]
    assert [row["name"] for row in found] == ["tea-time"]
    wanted = fits(api.post("/schedules/tea-time/run-now", {"key": "k"}, 202), "schedule-run-now")
    assert wanted["run"] == "tea-time@k"
    for action, given in (("pause", {"reason": "no tea"}), ("resume", None), ("remove", None)):
        changed = api.post(f"/schedules/tea-time/{action}", given)
        assert (changed["action"], changed["changed"]) == (action, True)
    assert api.refusal("GET", "/schedules/tea-time") == (404, "schedule_unknown")
    assert api.refusal("POST", "/schedules", json={**body, "cron": "0 25 * * *"})[0] == 422
    assert api.refusal("POST", "/schedules", json={**body, "workflow": "tae"})[0] == 404
    api.post("/schedules", body)
    for path in ("", "/trace", "/usage", "/events", "/result"):
        assert api.refusal("GET", f"/runs/schedule:tea-time{path}")[0] == 404, "it is no run"
    assert api.refusal("POST", "/runs/schedule:tea-time/cancel")[0] == 404
    other = {**body, "cron": "0 16 * * *"}
    assert api.refusal("POST", "/schedules", json=other) == (409, "schedule_exists")
    assert api.post("/schedules", {**other, "replace": True})["changed"] is True
