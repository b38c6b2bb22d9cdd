"""
Spans of real worker processes at a real OTLP receiver: one trace across workers and their deaths,
and nothing in it that a model, a person, a tool or a key said.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.worker import WorkerProcess

pytestmark = pytest.mark.server


def marker(of: str) -> str:
    return f"{of}-{''.join(secrets.choice(ascii_lowercase) for _ in range(12))}"


PROMPT, INPUT, ARGUMENT, RESULT = map(marker, ("prompt", "input", "argument", "result"))
REASONING, CANDIDATE, OUTPUT, RAISED = map(marker, ("reasoning", "candidate", "output", "raised"))
KEY = marker("key")
CANARIES = (PROMPT, INPUT, ARGUMENT, RESULT, REASONING, CANDIDATE, OUTPUT, RAISED, KEY)

FLOW = f"""\
name: brief
settings: {{model: scripted/m, recovery_limit: 1}}
nodes:
  - id: collect
    kind: agent
    prompt: "{PROMPT} {{input}}"
    tools: ["my_tools:look"]
    output_schema: {{type: object, properties: {{n: {{type: string}}}}, required: [n]}}
  - {{id: fail, kind: function, call: "my_tools:fail", needs: [collect]}}
"""
TOOLS = f"""\
from mulligan import tool
from opentelemetry import trace

@tool(effect="read")
def look(word: str) -> str:
    "Look a word up."
    with trace.get_tracer("users").start_as_current_span("users own"):
        return "{RESULT}"

def fail(collect):
    raise LookupError("{RAISED}")
"""
LOOK = {"name": "look", "arguments": {"word": ARGUMENT}}
BAD = {"name": "submit_output", "arguments": json.dumps({"output": {"n": [CANDIDATE]}})}
SCRIPT = [
    {"match": {"rounds": 0}, "reasoning": REASONING, "tool_calls": [LOOK]},
    {"match": {"rounds": 1}, "tool_calls": [BAD]},
    {"match": {"overseer": True}, "json": {"repaired_arguments": {"output": {"n": OUTPUT}}}},
]


class Collector:
    """An OTLP receiver over HTTP that keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        kept = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                kept.append(self.rfile.read(int(self.headers["content-length"])))
                body = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in list(self.bodies)]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def attributes(span: Span) -> dict[str, Any]:
    values = {one.key: one.value for one in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


def test_a_run_whose_worker_is_killed_is_one_trace_without_content(
    server: ValkeyServer, collector: Collector, tmp_path: Path
) -> None:
    flow = tmp_path / "brief.yaml"
    flow.write_text(FLOW)
    (tmp_path / "my_tools.py").write_text(TOOLS)
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "OPENAI_API_KEY": KEY,
    }
    with (
        ScriptedModel({"turns": SCRIPT}) as model,
        Client(Settings(redis_url=server.url)) as client,
        WorkerProcess(
            server.url,
            api_base=model.url,
            crash_at="tool.before:kill",
            folder=tmp_path,
            environment=environment,
        ) as worker,
        TracerProvider().get_tracer("shop").start_as_current_span("POST /orders") as asked_in,
    ):
        run = client.enqueue(str(flow), INPUT)
        state = client.wait(run, timeout_s=60)
        assert (state.status, len(worker.logged("worker_died"))) == ("failed", 1), worker.log()
        assert worker.terminate() == 0

    told = collector.spans()
    assert len({span.trace_id for span in told}) == 1
    assert len({span.span_id for span in told}) == len(told)
    # Every span but the root is part of another that was told too, though one worker was killed.
    assert {span.parent_span_id for span in told} - {b""} <= {span.span_id for span in told}
    looks = [span for span in told if span.name == "execute_tool look"]
    assert sorted(attributes(span).get("error.type", "") for span in looks) == ["", "worker_lost"]
    # What it had not handed over when it was killed is lost: its first request, perhaps.
    requests = {attributes(span).get("mulligan.request_id") for span in told}
    assert {"collect#2", "collect.overseer.1#1"} <= requests
    names = {span.name for span in told}
    assert {"invoke_agent collect", "invoke_agent overseer", "users own", "node fail"} < names
    (root,) = [span for span in told if span.name == "invoke_workflow brief"]
    assert root.status.code == Status.STATUS_CODE_ERROR
    (link,) = root.links
    assert int.from_bytes(link.span_id) == asked_in.get_span_context().span_id
    for canary in CANARIES:
        assert all(canary.encode() not in body for body in collector.bodies), canary
