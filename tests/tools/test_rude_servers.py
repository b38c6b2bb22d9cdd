"""tool3: servers that say too much, what nobody can read, or lead elsewhere; each told at once."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import WorkflowInvalid
from mulligan.schemas.builder import Workflow
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.plan import Plan
from mulligan.tools.mcp.call import McpCall
from mulligan.tools.mcp.catalogue import ServerCatalogue
from mulligan.tools.mcp.sessions import sessions

COMMAND = [sys.executable, str(Path(__file__).with_name("rude_server.py"))]
TIMEOUT_S = 60
AT_ONCE_S = 30.0
"""Of a busy machine; what is only told when the time is over takes twice that."""


def plan_with(*tools: str, **server: Any) -> Plan:
    flow = Workflow("flow", recovery_limit=0)
    effects = {"answer": {"effect": "write", "timeout": f"{TIMEOUT_S}s"}}
    rude = flow.mcp("rude", **({"command": COMMAND} | server), tools=effects)
    flow.agent("a", prompt="Do it.", tools=[rude.tool(name) for name in tools])
    flow.agent("b", prompt="Do it.", tools=[rude.tool(name) for name in tools])
    definition = flow.definition()
    return compile_plan(definition, default_model="scripted/any", catalogue=ServerCatalogue())


@pytest.fixture(scope="module")
def rude() -> Iterator[McpCall]:
    yield McpCall(plan_with("answer").tools["mcp:rude/answer"])
    sessions.close()


@pytest.mark.parametrize("how", ["large", "surrogate", "deep", "flood", "die"])
def test_an_answer_that_can_not_be_used_is_told_at_once(
    rude: McpCall, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a `write` it is unknown: it may have been done. The next call finds another server."""
    monkeypatch.setattr("mulligan.tools.mcp.pipes.MOST_MESSAGES", 500)
    began_s = time.monotonic()

    lost = rude.call({"how": how})

    assert ("no_answer", True) == (lost.code, lost.unknown)
    assert time.monotonic() - began_s < AT_ONCE_S
    assert "fine" == rude.call({"how": "banner"}).value, "what is no message is passed over"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "object", "properties": []}', "the server 'rude': its list of tools"),
        ('{"type": "string"}', "the server 'rude': its list of tools"),
        ('{"type": "object", "$ref": "http://127.0.0.1:1/"}', "no JSON Schema"),
        ('{"type": "object", "pattern": "("}', "no JSON Schema"),
    ],
)
def test_a_tool_whose_schema_is_of_no_use_is_refused(schema: str, said: str) -> None:
    with pytest.raises(WorkflowInvalid) as refused:
        plan_with("odd", command=[*COMMAND, schema])
    assert "mcp:rude/odd: " in str(refused.value)
    assert said in str(refused.value)


def test_a_server_that_can_not_be_asked_is_told_of_once_by_name() -> None:
    with pytest.raises(WorkflowInvalid) as refused:
        plan_with("answer", "other", command=["no-such-program"])
    (line,) = str(refused.value).splitlines()
    assert "mcp:rude/answer: the server 'rude': there is no program" in line


# --- HTTP -----------------------------------------------------------------------------------------


class RudeSite:
    """An MCP server over HTTP, which answers a call with `answer`: (status, headers, body)."""

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")
        self.heard: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                site.heard.append(self.path)
                asked = json.loads(self.rfile.read(size))
                status, headers, body = site.told(asked)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"

    def told(self, asked: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        kind = {"Content-Type": "application/json"}
        if "id" not in asked:
            return 202, {}, b""
        if asked["method"] == "tools/call":
            status, headers, body = self.answer
            number = json.dumps(asked["id"]).encode()
            return status, kind | headers, body.replace(b"NUMBER", number)
        if asked["method"] not in ("initialize", "tools/list"):
            error: Any = {"code": -32601, "message": "no"}
            return 200, kind, _json(asked, error=error)
        schema = {"type": "object", "properties": {"how": {"type": "string"}}}
        tools = [{"name": "answer", "inputSchema": schema}]
        started = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rude", "version": "1"},
        }
        return 200, kind, _json(asked, result={"tools": tools} | started)


def _json(asked: dict[str, Any], **said: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode()


@pytest.fixture(scope="module")
def site() -> Iterator[RudeSite]:
    site = RudeSite()
    yield site
    sessions.close()
    site.server.shutdown()
    site.server.server_close()


TEXT = b'{"jsonrpc":"2.0","id":NUMBER,"result":{"content":[{"type":"text","text":"%s"}]}}'
ELSEWHERE = {"Location": "http://localhost:1/mcp"}
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "large": (200, {}, TEXT % (b"x" * (17 << 20))),
    "compressed": (200, {"Content-Encoding": "gzip"}, gzip.compress(TEXT % (b"x" * (64 << 20)))),
    "surrogate": (200, {}, TEXT % rb"\ud800"),
    "events": (200, {"Content-Type": "text/event-stream"}, b"data: " + TEXT % rb"\ud800" + b"\n\n"),
    "redirect": (307, ELSEWHERE, b""),
    "login": (302, {"Location": "/login"}, b""),
    "page": (200, {"Content-Type": "text/html"}, b"<h1>Done</h1>"),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_an_answer_over_http_that_can_not_be_used_is_told_at_once(site: RudeSite, how: str) -> None:
    """Nothing is taken for a result, and nothing is sent to where a redirect leads."""
    plan = plan_with("answer", command=[], url=site.url)
    site.answer = ANSWERS[how]
    site.heard.clear()
    began_s = time.monotonic()

    lost = McpCall(plan.tools["mcp:rude/answer"]).call({"how": how})

    assert (True, True) == (lost.is_error, lost.unknown), lost
    assert time.monotonic() - began_s < AT_ONCE_S
    assert {"/mcp"} == set(site.heard)
    site.answer = (200, {}, TEXT % b"fine")
    assert "fine" == McpCall(plan.tools["mcp:rude/answer"]).call({"how": how}).value
