"""Tools of MCP servers: somebody else's server, and a small one that writes and dies."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.decisions.conversation import _offer
from mulligan.errors import WorkflowInvalid
from mulligan.events.envelope import Envelope
from mulligan.schemas.builder import McpHandle, Workflow
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.plan import Plan, decode_plan, encode_plan
from mulligan.testing.waiting import until
from mulligan.testing.worker import process_state
from mulligan.tools.mcp.call import McpCall
from mulligan.tools.mcp.catalogue import ServerCatalogue
from mulligan.tools.mcp.sessions import sessions

SMALL = Path(__file__).with_name("small_server.py")
COMMAND = [sys.executable, str(SMALL), "stdio"]
TOKEN = "c4nary-of-the-token"
OUTPUT = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
EFFECTS: dict[str, Any] = {
    "look": "read",
    "count": "read",
    "surroundings": "read",
    "refuse": {"effect": "write", "name": "refuse_it"},
    "sleep": {"effect": "read", "timeout": "2s"},
    "number": "read",
    "save": "idempotent",
}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the small server writes down; the servers of this module, started anew where it ends."""
    record = tmp_path_factory.mktemp("small") / "record.txt"
    record.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECORD", str(record))
        patch.setenv("SMALL_TOKEN", TOKEN)
        patch.setenv("OPENAI_API_KEY", "another canary")
        yield record
        sessions.close()


def flow_with(offered: list[str], /, **server: Any) -> Workflow:
    """A workflow of one agent with these tools of the small server."""
    flow = Workflow("flow", recovery_limit=0)
    given = {"command": COMMAND, "env": ["RECORD", "SMALL_TOKEN"], "tools": EFFECTS, **server}
    small = flow.mcp("small", **given)
    flow.agent("a", prompt="Do it.", tools=[small.tool(name) for name in offered], output=OUTPUT)
    return flow


@pytest.fixture(scope="module")
def plan(record: Path) -> Plan:
    """A plan with all tools of the small server, as it was when the run was asked for."""
    tools = [*EFFECTS, "save_and_die"]
    definition = flow_with(tools).definition()
    return compile_plan(definition, default_model="scripted/any", catalogue=ServerCatalogue())


def tool(plan: Plan, name: str) -> McpCall:
    return McpCall(plan.tools[f"mcp:small/{name}"])


# --- Plans ----------------------------------------------------------------------------------------


def test_tool3_a_plan_freezes_schema_effect_and_way_but_no_values(plan: Plan) -> None:
    specs = {path.partition("/")[2]: spec for path, spec in plan.tools.items()}

    assert "read" == specs["look"].effect
    assert "write" == specs["save_and_die"].effect, "what nothing is said of is a write"
    assert "refuse_it" == specs["refuse"].name
    assert 2_000 == specs["sleep"].timeout_ms
    assert ["word"] == specs["look"].parameters["required"]
    assert "Look a word up." == specs["look"].description
    assert plan == decode_plan(encode_plan(plan))
    assert TOKEN.encode() not in encode_plan(plan)


def test_tool3_models_are_shown_the_servers_schema_as_it_is(plan: Plan) -> None:
    spec = plan.tools["mcp:small/look"]
    assert spec.parameters == _offer(spec, held=True).parameters
    assert not _offer(spec, held=True).strict, "a default is not for providers to pass over"


@pytest.mark.parametrize(
    ("tools", "server", "said"),
    [
        (["lok"], {}, "offers no tool 'lok', did you mean 'look'"),
        (["look"], {"command": ["no-such-program"]}, "there is no program 'no-such-program'"),
        (["look"], {"env": ["RECORD", "NOT_THERE"]}, "the variable NOT_THERE"),
        (["look"], {"command": ["true"]}, "does not answer as an MCP server"),
    ],
)
def test_bad_servers_are_refused_when_the_workflow_is_compiled(
    plan: Plan, tools: list[str], server: dict[str, Any], said: str
) -> None:
    definition = flow_with(tools, **server).definition()
    with pytest.raises(WorkflowInvalid) as refused:
        compile_plan(definition, default_model="scripted/any", catalogue=ServerCatalogue())
    assert said in str(refused.value).replace("; did", ", did").replace(" (did", ", did")


@pytest.mark.parametrize(
    ("tools", "server", "said"),
    [
        (["look"], {"url": "http://127.0.0.1/mcp"}, "either a command or a url"),
        (["look"], {"command": []}, "either a command or a url"),
        (["look"], {"bearer": "TOKEN"}, "use env"),
        (["look"], {"command": [], "env": [], "url": "http://u:p@h/mcp"}, "without user"),
        (["look"], {"command": [], "env": [], "url": "http://h/mcp?key=1"}, "without user"),
        (["look"], {"command": [], "env": [], "url": "file:///etc/passwd"}, "http"),
        (["look"], {"env": ["TOKEN=value"]}, "env"),
        (["look"], {"tools": {"look": "reads"}}, "tools"),
        (["a.b"], {}, "name"),
        (["look", "count"], {"tools": {"count": {"name": "look"}}}, "both named 'look'"),
    ],
)
def test_what_can_not_be_meant_is_refused_without_asking_the_server(
    tools: list[str], server: dict[str, Any], said: str
) -> None:
    with pytest.raises(WorkflowInvalid) as refused:
        flow_with(tools, **server).definition()
    assert said in str(refused.value)


def test_a_tool_of_a_server_that_is_not_named_is_refused() -> None:
    flow = Workflow("flow")
    flow.agent("a", prompt="p", tools=[McpHandle("absent").tool("look")])
    with pytest.raises(WorkflowInvalid, match="no server 'absent' under mcp"):
        flow.definition()


# --- Calls ----------------------------------------------------------------------------------------


def test_tool3_a_result_is_the_servers_text_or_structure(plan: Plan) -> None:
    assert "found tea 3" == tool(plan, "look").call({"word": "tea"}).value
    assert "found tea None" == tool(plan, "look").call({"word": "tea", "limit": None}).value
    assert {"tea": 3} == tool(plan, "count").call({"words": ["tea"]}).value


def test_arguments_are_held_to_the_frozen_schema(plan: Plan) -> None:
    refused = tool(plan, "look").call({"word": 12345, "limit": "many"})
    assert (True, "invalid_arguments", False) == (refused.is_error, refused.code, refused.unknown)
    assert "word: breaks the schema's type" in (refused.message or "")
    assert "12345" not in (refused.message or "")
    missing = tool(plan, "look").call({})
    assert "required" in (missing.message or "")


def test_tool1_is_error_stays_an_error(plan: Plan) -> None:
    refused = tool(plan, "refuse").call({"text": "x"})
    assert (True, "tool_error", False) == (refused.is_error, refused.code, refused.unknown)


def test_rec31_a_server_is_told_the_key_of_a_call(plan: Plan, record: Path) -> None:
    assert "saved" == tool(plan, "save").call({"text": "keyed"}, key="k-1").value
    assert "save keyed k-1" in record.read_text().splitlines()


def test_rec31_a_server_that_dies_in_a_call_leaves_it_unknown(plan: Plan, record: Path) -> None:
    lost = tool(plan, "save_and_die").call({"text": "lost"})
    assert (True, True) == (lost.is_error, lost.unknown)
    assert 1 == record.read_text().splitlines().count("save lost"), "and it was asked once"
    assert "found tea 3" == tool(plan, "look").call({"word": "tea"}).value, "by a new server"


def test_a_call_that_takes_too_long_is_given_up(plan: Plan) -> None:
    tool(plan, "look").call({"word": "tea"})  # the time of a call is that of a start as well
    late = tool(plan, "sleep").call({"seconds": 8})
    assert ("timeout", True) == (late.code, late.unknown)


def test_a_server_is_given_the_variables_that_are_named_and_no_others(plan: Plan) -> None:
    given = set(tool(plan, "surroundings").call({}).value.split())
    assert {"RECORD", "SMALL_TOKEN", "PATH"} <= given
    assert "OPENAI_API_KEY" not in given


def test_tool3_a_tool_that_has_changed_is_refused(plan: Plan, record: Path) -> None:
    sessions.close()  # the server is started anew, as another version of itself
    changed = record.with_name("changed")
    changed.touch()
    try:
        refused = tool(plan, "look").call({"word": "tea"})
    finally:
        changed.unlink()
        sessions.close()
    assert (True, "tool_changed", False) == (refused.is_error, refused.code, refused.unknown)


def test_a_server_ends_with_the_process_that_it_works_for(record: Path) -> None:
    """As when a lease's end kills the process of a `write`: nobody writes on."""
    code = f"""
from mulligan.schemas.mcp_tools import McpServer
from mulligan.tools.mcp.sessions import sessions

async def use():
    async def ask(client):
        await client.call_tool("sleep", {{"seconds": 60.0}})
    await sessions.of(McpServer(command={tuple(COMMAND)!r}, env=("RECORD",))).use(ask)

sessions.run(use())
"""
    before = record.read_text().count("pid ")
    worker = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: record.read_text().count("pid ") > before, 60.0)
    server = int(record.read_text().rpartition("pid ")[2])
    assert process_state(server) is not None

    worker.kill()
    worker.wait()

    until(lambda: process_state(server) in (None, "Z"), 10.0)


def test_a_server_that_has_gone_before_it_is_asked_is_started_again(
    plan: Plan, record: Path
) -> None:
    server = int(tool(plan, "number").call({}).value)
    os.kill(server, signal.SIGKILL)
    until(lambda: process_state(server) in (None, "Z"), 10.0)
    assert "found tea 3" == tool(plan, "look").call({"word": "tea"}).value


def test_what_a_server_says_is_in_no_log(record: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may hold what the server was given."""
    command = ["sh", "-c", f'echo "$SMALL_TOKEN"; exec {shlex.join(COMMAND)}']
    definition = flow_with(["look"], command=command).definition()

    compile_plan(definition, default_model="scripted/any", catalogue=ServerCatalogue())

    assert TOKEN not in caplog.text


def test_a_server_that_hangs_as_it_starts_is_started_again(
    plan: Plan, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.close()
    hangs = record.with_name("hangs")
    hangs.touch()
    with monkeypatch.context() as patch:
        patch.setattr("mulligan.tools.mcp.sessions.CONNECT_S", 3.0)
        given_up = tool(plan, "look").call({"word": "tea"})
    assert (True, False) == (given_up.is_error, given_up.unknown)
    hangs.unlink(missing_ok=True)  # where it was given up before it got that far

    assert "found tea 3" == tool(plan, "look").call({"word": "tea"}).value


def test_a_server_that_hangs_after_a_call_is_started_again(plan: Plan, record: Path) -> None:
    server = int(tool(plan, "number").call({}).value)
    os.kill(server, signal.SIGSTOP)
    try:
        given_up = tool(plan, "sleep").call({"seconds": 0.0})
        assert ("timeout", False) == (given_up.code, given_up.unknown)

        assert "found tea 3" == tool(plan, "look").call({"word": "tea"}).value
    finally:
        until(lambda: process_state(server) in (None, "Z"), 10.0)


# --- Runs -----------------------------------------------------------------------------------------


@pytest.mark.server
def test_tool3_a_run_uses_somebody_elses_server(bench: Any, record: Path) -> None:
    program = shutil.which("mcp-server-time", path=str(Path(sys.executable).parent))
    assert program is not None, "mcp-server-time is of the group `test`"
    flow = Workflow("clock", recovery_limit=0)
    clock = flow.mcp(
        "time",
        command=[program, "--local-timezone", "UTC"],
        tools={"convert_time": "read", "get_current_time": "read"},
    )
    flow.agent("a", prompt="When?", tools=[clock.tool("convert_time")], output=OUTPUT)
    noon = {"source_timezone": "Europe/Bern", "time": "12:00", "target_timezone": "UTC"}
    calls = [noon, {**noon, "source_timezone": "Europe/Zurich"}]

    worked = bench.work(flow, [{"name": "convert_time", "arguments": one} for one in calls])

    assert "completed" == worked.state.status
    nowhere, zurich = worked.told
    assert '"code":"tool_error"' in nowhere, "there is no zone of that name"
    assert json.loads(zurich)["target"]["timezone"] == "UTC"
    assert ["tool_error"] == worked.failures


@pytest.mark.server
def test_rec31_a_write_whose_server_dies_is_reconciled_and_never_repeated(
    bench: Any, record: Path
) -> None:
    record.write_text("")
    flow = flow_with(["look", "save_and_die", "refuse"])
    calls = [
        {"name": "look", "arguments": {"word": "tea"}},
        {"name": "refuse_it", "arguments": {"text": "no"}},
        {"name": "save_and_die", "arguments": {"text": "once"}},
    ]

    worked = bench.work(flow, calls)

    assert ("paused", "reconciliation_required") == (worked.state.status, worked.state.reason)
    assert ["save once"] == record.read_text().splitlines()
    assert ["tool_error"] == worked.failures
    assert not leaks(worked.events), "values of variables are in no log"


@pytest.fixture
def over_http(record: Path) -> Iterator[str]:
    """The small server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(SMALL), str(port)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    until(lambda: _listens(port), 60.0)
    yield f"http://127.0.0.1:{port}/mcp"
    server.kill()
    server.wait()


@pytest.mark.server
def test_tool3_a_run_uses_a_server_over_http(bench: Any, over_http: str, record: Path) -> None:
    record.write_text("")
    flow = flow_with(
        ["look", "save", "save_and_die"],
        **{"command": [], "env": [], "url": over_http, "bearer": "SMALL_TOKEN"},
    )
    calls = [
        {"name": "look", "arguments": {"word": "tea", "limit": None}},
        {"name": "save", "arguments": {"text": "far"}},
        {"name": "save_and_die", "arguments": {"text": "away"}},
    ]

    worked = bench.work(flow, calls)

    assert ["found tea None", "saved"] == worked.results
    assert ("paused", "reconciliation_required") == (worked.state.status, worked.state.reason)
    kept, lost = record.read_text().splitlines()
    assert kept.startswith("save far ")
    assert not kept.endswith("None"), "with its key"
    assert "save away" == lost
    assert not leaks(worked.events)


@pytest.mark.server
def test_arguments_that_a_server_would_not_take_cost_an_attempt(bench: Any, record: Path) -> None:
    worked = bench.work(flow_with(["look"]), [{"name": "look", "arguments": {"limit": 1}}])
    assert ("paused", "exhausted") == (worked.state.status, worked.state.reason)
    assert ["invalid_arguments"] == worked.failures


def leaks(events: list[Envelope]) -> bool:
    return TOKEN in repr(events)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
