"""
The overseer over real HTTP, in real worker processes: what it is asked, what comes of it, what is
left of it after crashes, pauses and cancellations, and that nothing of a candidate is kept (OVR).

Every scenario puts markers into the malformed arguments, the model's reasoning, the provider's key
and the prompt, and afterwards looks for them in all that the system has written.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.requests import Request
from starlette.types import Send

import mulligan
from mulligan.cli import main
from mulligan.client import Client
from mulligan.errors import InvocationFailed
from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.keys import Keys
from mulligan.events.redis_connection import connect
from mulligan.events.tasks import overseer_task
from mulligan.projections.history import problems
from mulligan.projections.state import RunState
from mulligan.schemas.builder import Workflow
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ReceivedRequest, ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess

pytestmark = pytest.mark.server

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def marker(of: str) -> str:
    """A word that stands nowhere by accident; without digits, which count as numbers (OUT-6)."""
    return f"{of}-{''.join(secrets.choice(ascii_lowercase) for _ in range(12))}"


CANDIDATE, REASONING = marker("candidate"), marker("reasoning")
API_KEY, TRANSCRIPT = marker("key"), marker("transcript")
LEASE_MS = 1_000
COMMANDS = ("trace", "chat", "usage", "recovery", "status", "tail", "verify", "repair-log")
OF_ALL_RUNS = ("list", "status", "usage", "tail", "doctor")


def submit(arguments: str, attempt: int | None = 1, **more: Any) -> dict[str, Any]:
    """A final output with these arguments."""
    match = {"attempt": attempt} if attempt is not None else {}
    call = {"name": "submit_output", "arguments": arguments}
    return {"match": match, "reasoning": REASONING, "tool_calls": [call], "chunks": 4_000, **more}


VIOLATION = json.dumps({"output": {"n": CANDIDATE}, "assistant_message": None})
BAD = submit(VIOLATION)
GOOD = {"match": {"attempt": 2}, "json": {"n": 2}}


def overseer(**said: Any) -> dict[str, Any]:
    """What the overseer's model says."""
    return {"match": {"overseer": True}, "reasoning": REASONING, **said}


REPAIRED = overseer(json={"repaired_arguments": {"output": {"n": 1}}})


class Model(ScriptedModel):
    """Remembers the credentials that it was shown."""

    def __init__(self, turns: list[Any]) -> None:
        super().__init__(turns)
        self.shown: list[str | None] = []

    async def complete(self, request: Request, send: Send) -> None:
        self.shown.append(request.headers.get("authorization"))
        await super().complete(request, send)

    @property
    def overseers(self) -> list[ReceivedRequest]:
        return [one for one in self.requests if of_overseer(one)]

    @property
    def workers(self) -> list[ReceivedRequest]:
        return [one for one in self.requests if not of_overseer(one)]


def of_overseer(request: ReceivedRequest) -> bool:
    return ".overseer." in request.headers["x-mulligan-invocation"]


class Desk:
    """A server, the runs and models of a test, and all that the system writes."""

    def __init__(self, server: ValkeyServer, forked: Callable[..., Any] | None = None) -> None:
        self.server = server
        self._forked = forked
        self.client = Client(Settings(redis_url=server.url))
        self.models: list[Model] = []
        self.runs: list[str] = []
        self.logs: list[Callable[[], str]] = []

    def model(self, *turns: Any) -> Model:
        self.models.append(Model(list(turns)).start())  # type: ignore[arg-type]
        return self.models[-1]

    def flow(self, model: Model, /, *, agent: dict[str, Any] | None = None, **settings: Any) -> Any:
        fields = {"model": "scripted/m", "api_base": model.url, **settings}
        flow = Workflow("flow", retry={"backoff": "20ms"}, **fields)
        flow.agent("a", prompt=f"Count. {TRANSCRIPT}", output=SCHEMA, **(agent or {}))
        return flow

    def enqueue(self, flow: Workflow) -> str:
        self.runs.append(self.client.enqueue(flow))
        return self.runs[-1]

    def run(self, *turns: Any, **options: Any) -> tuple[Model, Ended]:
        """A run to its end, or until it is paused."""
        model = self.model(*turns)
        return model, self.ended(self.enqueue(self.flow(model, **options)))

    def ended(self, run: str) -> Ended:
        state = self.client.wait(run, timeout_s=60)
        return Ended(self, state, list(self.client.events(run)))

    def events(self, run: str) -> list[Envelope]:
        return list(self.client.events(run))

    def fork(self, crash_at: str = "") -> Any:
        """
        Start a worker process, with a crash point if one is given. It then has one thread: with
        more, another might go on from what the append has announced before the point is reached.
        """
        assert self._forked is not None
        made = self._forked(
            {
                "MULLIGAN_REDIS_URL": self.server.url,
                "MULLIGAN_LEASE_MS": str(LEASE_MS),
                "MULLIGAN_LEASE_MARGIN_MS": "200",
                "MULLIGAN_LOG_LEVEL": "debug",
                "MULLIGAN_CRASH_AT": crash_at,
                "OPENAI_API_KEY": API_KEY,
            },
            threads=1 if crash_at else 8,
        )
        self.logs.append(made.log)
        return made

    def told(self) -> str:
        return "\n".join(log() for log in self.logs)

    def cli(self, *arguments: str) -> str:
        """What a command prints, on both of its streams."""
        done = CliRunner().invoke(
            main, arguments, env={"MULLIGAN_REDIS_URL": self.server.url, "MULLIGAN_API_BASE": None}
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done.output

    def close(self) -> None:
        for model in self.models:
            model.stop()
        self.client.close()


class Ended:
    """A run that has ended or is paused."""

    def __init__(self, desk: Desk, state: RunState, events: list[Envelope]) -> None:
        self.state = state
        self.events = events
        self.output = desk.client.value(state.run, state.output) if state.output else None
        assert problems(events) == []

    @property
    def repairs(self) -> list[str]:
        return repairs(self.events)

    @property
    def reasons(self) -> list[str]:
        return [fact.reason for fact in self.of(facts.AllowanceReserved)]

    def of(self, kind: type) -> list[Any]:
        return [event.data for event in self.events if isinstance(event.data, kind)]


def repairs(events: list[Envelope]) -> list[str]:
    """The events of repairs, with the reasons of those that failed."""
    return [
        getattr(event.data, "reason", event.type.removeprefix("OutputRepair"))
        for event in events
        if event.type.startswith("OutputRepair")
    ]


ASKED = ["Requested", "Started"]

# --- Nothing is kept -----------------------------------------------------------------------------


def stored(server: ValkeyServer) -> dict[str, str]:
    """Every key of the server but sealed candidates, as text; fails for what it can't read."""
    readers: dict[str, Callable[[Any, str], Any]] = {
        "string": lambda client, key: client.get(key),
        "hash": lambda client, key: client.hgetall(key),
        "list": lambda client, key: client.lrange(key, 0, -1),
        "set": lambda client, key: client.smembers(key),
        "zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
        "stream": lambda client, key: client.xrange(key),
    }
    with connect(server.url) as client:
        found = {}
        for raw in client.scan_iter():
            key = raw.decode()
            if ":sealed:" not in key:
                read = readers[client.type(key).decode()]
                found[key] = f"{key} {read(client, key)!r}"
        return found


def assert_nothing_is_kept(desk: Desk) -> None:
    """OVR-10: no marker where it does not belong."""
    written = stored(desk.server)
    written |= {f"log {n}": log() for n, log in enumerate(desk.logs)}
    shown: dict[str, str] = {}
    for run in desk.runs:
        for command in COMMANDS:
            shown[f"{command} {run}"] = desk.cli(command, run)
            if command != "tail":
                shown[f"{command} {run} --json"] = desk.cli(command, run, "--json")
    shown |= {"list": desk.cli("list"), "list --json": desk.cli("list", "--json")}
    for where, text in {**written, **shown}.items():
        for marker in (CANDIDATE, REASONING, API_KEY):
            assert marker not in text, f"{marker} in {where}"
    # The prompt stands in the plan (the log, and what prints it) and in the chat; nowhere else.
    for where, text in {**written, **shown}.items():
        if not (":r:" in where or where.split()[0] in ("chat", "tail")):
            assert TRANSCRIPT not in text, where
    for model in desk.models:
        for request in model.requests:
            body = json.dumps(request.body)
            assert REASONING not in body
            assert API_KEY not in body
            assert (TRANSCRIPT if of_overseer(request) else CANDIDATE) not in body


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


@pytest.fixture(scope="module")
def worker(valkey: ValkeyServer) -> Iterator[WorkerProcess]:
    """One for all scenarios that leave it alive."""
    environment = {"MULLIGAN_LOG_LEVEL": "debug", "OPENAI_API_KEY": API_KEY}
    with WorkerProcess(valkey.url, environment=environment) as worker:
        worker.until_working()
        yield worker


@pytest.fixture
def desk(valkey: ValkeyServer, worker: WorkerProcess) -> Iterator[Desk]:
    """With a worker; afterwards nothing must be kept that does not belong."""
    desk = Desk(valkey)
    desk.logs.append(worker.log)
    yield desk
    assert_nothing_is_kept(desk)
    desk.close()


# --- Success -------------------------------------------------------------------------------------


def test_ovr5_ovr6_ovr8_a_repaired_output_is_an_ordinary_one(desk: Desk) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    model, ended = desk.run(BAD, {**REPAIRED, "usage": usage}, GOOD)

    assert ("completed", {"n": 1}) == (ended.state.status, ended.output)
    assert [*ASKED, "Succeeded"] == ended.repairs
    assert [] == ended.reasons
    assert 0 == ended.state.invocations["a"].recovery.used
    assert 2 == len(model.requests)
    (accepted,) = ended.of(facts.OutputAccepted)
    assert accepted.assistant_message is None
    (succeeded,) = ended.of(facts.OutputRepairSucceeded)
    assert ("/n",) == succeeded.novel
    assert "call_1_0" == succeeded.provider_id, "the worker's call id is kept"
    by_model = json.loads(desk.cli("usage", ended.state.run, "--json"))
    assert {"prompt_tokens": 11, "completion_tokens": 7}.items() <= by_model["overseer"][
        "m"
    ].items()
    assert 1 == by_model["models"]["m"]["requests"]


def test_ovr5_the_request_is_isolated(desk: Desk) -> None:
    model, ended = desk.run(BAD, REPAIRED, agent={"temperature": 0.5, "max_output_tokens": 900})

    (request,) = model.overseers
    # Of the agent's own settings the limit on its output alone: users' limits hold (REC-10).
    assert {"model", "messages", "max_tokens"} == request.body.keys()
    assert 900 == request.body["max_tokens"]
    system, user = request.body["messages"]
    assert ("system", "user") == (system["role"], user["role"])
    given = json.loads(user["content"])
    (rejected,) = ended.of(facts.OutputRejected)
    assert {
        "malformed_arguments": VIOLATION,
        "validation_detail": f"/n: {rejected.issues[0].message} ({rejected.issues[0].code})",
        "tool_name": "submit_output",
        "expected_output_schema": SCHEMA,
    } == given
    assert "untrusted data" in system["content"]
    (worker_request,) = model.workers
    assert worker_request.body["stream"] is True
    assert (rejected.bytes, rejected.digest) == (
        len(VIOLATION),
        ended.of(facts.OutputRepairRequested)[0].digest,
    )


def test_ovr4_the_credentials_are_the_runs_own(desk: Desk) -> None:
    model = desk.model(BAD, REPAIRED)
    flow = desk.flow(model, model="openai/m", output_repair_model="big")

    ended = desk.ended(desk.enqueue(flow))

    assert {"n": 1} == ended.output
    assert [f"Bearer {API_KEY}"] * 2 == model.shown
    assert ["m", "big"] == [request.body["model"] for request in model.requests]


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, "m"),
        ({"outputRepairModel": " "}, "m"),
        ({"outputRepairModel": "scripted/big"}, "big"),
        ({"output_repair_model": "big"}, "big"),
    ],
    ids=["absent", "blank", "named", "aliased"],
)
def test_ovr4_the_model_is_that_of_the_settings_or_the_workers(
    desk: Desk, tmp_path: Path, settings: dict[str, str], asked: str
) -> None:
    model = desk.model(BAD, REPAIRED)
    file = tmp_path / "flow.yaml"
    node = {"id": "a", "kind": "agent", "prompt": TRANSCRIPT, "output_schema": SCHEMA}
    base = {"model": "scripted/m", "api_base": model.url}
    # JSON is YAML.
    file.write_text(json.dumps({"name": "f", "settings": base | settings, "nodes": [node]}))
    desk.runs.append(desk.client.enqueue(str(file)))

    ended = desk.ended(desk.runs[-1])

    assert {"n": 1} == ended.output
    assert ["m", asked] == [request.body["model"] for request in model.requests]
    assert [asked] == [fact.model for fact in ended.of(facts.OutputRepairStarted)]


def test_ovr1_a_called_agents_output_is_repaired_alike(desk: Desk) -> None:
    call = {"name": "call_subagent", "arguments": {"subagent": "c", "input": "x"}}
    model = desk.model(
        {"match": {"invocation": "a", "rounds": 0}, "tool_calls": [call]},
        submit(VIOLATION, None, match={"invocation": "a.1.1"}),
        {**REPAIRED, "match": {"invocation": "a.1.1.overseer.1", "overseer": True}},
        {"match": {"invocation": "a", "rounds": 1}, "json": {"n": 5}},
    )
    flow = Workflow("flow", model="scripted/m", api_base=model.url)
    flow.subagent("c", prompt="Check.", output=SCHEMA)
    flow.agent("a", prompt=TRANSCRIPT, output=SCHEMA, subagents=["c"])

    ended = desk.ended(desk.enqueue(flow))

    assert ("completed", {"n": 5}) == (ended.state.status, ended.output)
    assert [*ASKED, "Succeeded"] == ended.repairs
    assert ["a.1.1"] == [fact.invocation for fact in ended.of(facts.OutputRepairSucceeded)]
    (told,) = [m for m in model.workers[-1].body["messages"] if m["role"] == "tool"]
    assert '{"n":1}' == told["content"]
    assert "a.1.1.overseer.1#1" == model.overseers[0].headers["x-mulligan-request"]


@pytest.mark.parametrize("mode", ["native", "prompt"])
def test_ovr3_an_output_that_came_as_text_is_repaired_alike(desk: Desk, mode: str) -> None:
    text = {"match": {"attempt": 1}, "text": f'{{"n": "{CANDIDATE}"}}'}

    _, ended = desk.run(text, REPAIRED, GOOD, agent={"mode": mode})

    assert {"n": 1} == ended.output
    assert [None] == [fact.provider_id for fact in ended.of(facts.OutputRepairSucceeded)]


def test_ovr7_the_trace_tells_it_and_the_chat_does_not(desk: Desk) -> None:
    _, failed = desk.run(BAD, overseer(text="I can't."), GOOD)
    _, repaired = desk.run(BAD, REPAIRED)

    told = desk.cli("trace", failed.state.run)
    assert "overseer asks m (a.overseer.1#1)" in told
    assert "overseer could not repair it: missing_arguments" in told
    assert "overseer repaired the output" in desk.cli("trace", repaired.state.run)
    for run in (failed.state.run, repaired.state.run):
        chat = json.loads(desk.cli("chat", run, "--json"))
        assert ["prompt", "output"] == [entry["kind"] for entry in chat["entries"]]
        assert "overseer" not in desk.cli("chat", run)
        assert "overseer" not in desk.cli("status", run)


# --- Failure -------------------------------------------------------------------------------------

LARGE = {"repaired_arguments": {"output": {"n": 1, "more": "x" * 70_000}}}
UNREPAIRED: dict[str, tuple[str, dict[str, Any]]] = {
    "an error of the provider": (
        "invocation_failed",
        overseer(fault={"kind": "status", "status": 503}),
    ),
    "a connection that breaks": ("invocation_failed", overseer(fault={"kind": "reset"})),
    "a body that ends early": (
        "invocation_failed|not_completed",
        overseer(text="{}", fault={"kind": "cut", "at_byte": 40}),
    ),
    "a refusal": ("not_completed", overseer(text="", refusal="No.")),
    "a filter": ("not_completed", overseer(text="", finish_reason="content_filter")),
    "a call": ("not_completed", overseer(tool_calls=[{"name": "submit_output"}])),
    "no finish reason": ("not_completed", overseer(text="{}", finish_reason=None)),
    "prose": ("missing_arguments", overseer(text="It can't be repaired.")),
    "nothing": ("missing_arguments", overseer(text="")),
    "the output alone": ("missing_arguments", overseer(json={"n": 1})),
    "arguments that are no object": (
        "missing_arguments",
        overseer(json={"repaired_arguments": [1]}),
    ),
    "too much": ("oversize", overseer(json=LARGE)),
    "the limit": ("truncated", {**REPAIRED, "finish_reason": "length"}),
    "an open end": ("truncated", overseer(text='{"repaired_arguments": {"output": {"n": 1')),
    "another violation": (
        "protocol_failed",
        overseer(json={"repaired_arguments": {"output": {"n": "x"}}}),
    ),
    "another envelope": (
        "protocol_failed",
        overseer(json={"repaired_arguments": {"result": {"n": 1}, "why": 1}}),
    ),
}


@pytest.mark.parametrize("name", UNREPAIRED)
def test_ovr2_ovr7_a_failed_repair_leaves_the_original_error(desk: Desk, name: str) -> None:
    reason, said = UNREPAIRED[name]
    model, ended = desk.run(BAD, {**said, "times": 3}, GOOD)

    assert ("completed", {"n": 2}) == (ended.state.status, ended.output)
    assert ASKED == ended.repairs[:2]
    assert ended.repairs[2] in reason.split("|")
    assert 3 == len(ended.repairs)
    assert 1 == len(model.overseers), "it is asked once, whatever comes of it"
    (reserved,) = ended.of(facts.AllowanceReserved)
    assert ("schema_violation", "a#1", 1) == (reserved.reason, reserved.request_id, reserved.used)
    assert "the output does not fit its schema" == reserved.cause.message


def test_ovr9_a_time_out_of_the_overseer_alone_is_a_failure(desk: Desk) -> None:
    late = {**REPAIRED, "delay_ms": 20_000}
    _, ended = desk.run(BAD, late, GOOD, output_repair_timeout="1s")

    assert {"n": 2} == ended.output
    assert [*ASKED, "invocation_failed"] == ended.repairs


def test_out6_novel_values_fail_where_the_settings_are_strict(desk: Desk) -> None:
    _, ended = desk.run(BAD, REPAIRED, GOOD, output_repair_strict=True)

    assert {"n": 2} == ended.output
    (failed,) = ended.of(facts.OutputRepairFailed)
    assert ("protocol_failed", ("/n",)) == (failed.reason, failed.novel)


def test_out6_nothing_novel_passes_where_the_settings_are_strict(desk: Desk) -> None:
    same = submit(f'{{"n": 1}} or rather {{"n": 1}} {CANDIDATE}')
    _, ended = desk.run(same, REPAIRED, GOOD, output_repair_strict=True)

    assert {"n": 1} == ended.output
    assert [()] == [fact.novel for fact in ended.of(facts.OutputRepairSucceeded)]


def test_ovr2_the_last_attempt_is_overseen_and_ends_with_its_own_cause(desk: Desk) -> None:
    two = submit("so, {3} or {4}", 2)
    model, ended = desk.run(BAD, overseer(text="No.", times=2), two, recovery_limit=1)

    assert ("paused", "exhausted") == (ended.state.status, ended.state.reason)
    (exhausted,) = ended.of(facts.AllowanceExhausted)
    assert ("invalid_json", "the output is not JSON") == (exhausted.reason, exhausted.cause.message)
    assert 2 == len(model.overseers)


def test_rec8_an_output_that_is_there_twice_is_told_as_that(desk: Desk) -> None:
    """Not as one that is not JSON: neither to the operator nor to the model."""
    twice = submit(f"{VIOLATION} or {VIOLATION}", None, times=2)
    model, ended = desk.run(twice, overseer(text="No.", times=2), recovery_limit=1)

    (exhausted,) = ended.of(facts.AllowanceExhausted)
    assert "invalid_json" == exhausted.reason
    assert exhausted.cause.message == (
        "there is no output to take: the text holds more than one value, and none is chosen"
    )
    assert "more than one value" in json.dumps(model.workers[-1].body)


def test_ovr2_three_attempts_have_one_overseer_call_each_and_never_two(desk: Desk) -> None:
    turns = [submit(VIOLATION, attempt) for attempt in (1, 2, 3)]
    again = submit(VIOLATION, 3)
    last = {"match": {"attempt": 4}, "json": {"n": 4}}
    model, ended = desk.run(*turns, again, last, overseer(text="No.", times=9))

    assert "paused" == ended.state.status
    assert [1, 2, 3] == [int(one.headers["x-mulligan-attempt"]) for one in model.overseers]
    assert [*ASKED, "missing_arguments"] * 3 == ended.repairs

    # A resume goes on with the same attempt, which the overseer has seen.
    desk.client.resume(ended.state.run)
    until(lambda: desk.client.status(ended.state.run).status == "completed")
    after = desk.ended(ended.state.run)
    assert {"n": 4} == after.output
    assert 3 == len(model.overseers)


def test_ovr2_a_limit_of_0_has_no_overseer(desk: Desk) -> None:
    model, ended = desk.run(BAD, REPAIRED, recovery_limit=0)

    assert ("paused", "exhausted") == (ended.state.status, ended.state.reason)
    assert [] == ended.repairs
    assert 1 == len(model.requests)


# --- What is repairable --------------------------------------------------------------------------


ALPHABETS = {
    "ascii": "abcdefghijklmnopqrstuvwxyz",
    "two bytes": "éèêàâçñöüäßøåæðþ",
    "three bytes": "語茶葉水湯器山川木火土金月日星空",
    "four bytes": "🫖🍵🌿🍃🌱🎋🎍🪴🌾🌵🌴🌳🌲🌰🌼🌻",
}


def sized(bytes_: int, letters: str) -> str:
    """Arguments that break the schema and are of so many bytes as received; they do not repeat."""
    frame = f'{{"output": {{"n": "{CANDIDATE}"}}}}'
    width, room = len(letters[0].encode()), bytes_ - len(frame)
    filling = "".join(Random(1).choices(letters, k=room // width)) + "." * (room % width)
    text = frame.replace(CANDIDATE, CANDIDATE + filling)
    assert len(text.encode()) == bytes_
    return text


@pytest.mark.parametrize("letters", ALPHABETS)
@pytest.mark.parametrize("bytes_", [65_536, 65_537])
def test_ovr3_the_size_counts_in_bytes_as_received(desk: Desk, bytes_: int, letters: str) -> None:
    text = sized(bytes_, ALPHABETS[letters])
    model, ended = desk.run(submit(text), REPAIRED, GOOD)

    (rejected,) = ended.of(facts.OutputRejected)
    assert bytes_ == rejected.bytes
    if bytes_ == 65_536:
        assert [*ASKED, "Succeeded"] == ended.repairs
        given = json.loads(model.overseers[0].body["messages"][1]["content"])
        assert text == given["malformed_arguments"]
    else:
        assert ([], []) == (ended.repairs, model.overseers)
        assert ["schema_violation"] == ended.reasons


UNREPAIRABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "cut off at the limit": ("length", {**BAD, "finish_reason": "length"}),
    "cut off and relabelled": ("length", submit(VIOLATION[:-8])),
    "a string without an end": ("length", submit(f'{{"output": {{"n": "{CANDIDATE}')),
    "no terminal event": ("eof", {**BAD, "fault": {"kind": "eof"}}),
    "text in place of the call": ("wrong_envelope", {"match": {"attempt": 1}, "text": CANDIDATE}),
    "a malformed call": ("invalid_json", {**BAD, "finish_reason": "malformed_function_call"}),
    "another tool's arguments": (
        "invalid_json",
        {
            "match": {"attempt": 1},
            "tool_calls": [{"name": "look", "arguments": f"[{CANDIDATE}"}],
        },
    ),
    "a mixed turn": (
        "mixed_turn",
        {
            "match": {"attempt": 1},
            "tool_calls": [
                {"name": "submit_output", "arguments": VIOLATION},
                {"name": "look", "arguments": "{}"},
            ],
        },
    ),
}


@pytest.mark.parametrize("name", UNREPAIRABLE)
def test_ovr3_what_is_not_repairable_never_meets_the_overseer(desk: Desk, name: str) -> None:
    reason, turn = UNREPAIRABLE[name]
    model, ended = desk.run(turn, REPAIRED, GOOD)

    assert ([], []) == (ended.repairs, model.overseers)
    assert [reason] == ended.reasons
    assert {"n": 2} == ended.output


ASKING = {"request_user_input": "[{}]", "ask_user_question": '{{"questions": {}}}'}


@pytest.mark.parametrize("tool", ASKING)
def test_ovr3_a_malformed_question_never_meets_the_overseer(desk: Desk, tool: str) -> None:
    call = {"name": tool, "arguments": ASKING[tool].format(CANDIDATE)}
    turn = {"match": {"attempt": 1}, "reasoning": REASONING, "tool_calls": [call]}
    model, ended = desk.run(turn, REPAIRED, GOOD, agent={"allow_user_input": True})

    assert ([], []) == (ended.repairs, model.overseers)
    assert 1 == len(ended.reasons)
    assert {"n": 2} == ended.output


# --- What the commands show ----------------------------------------------------------------------


def test_ovr10_what_is_shown_of_all_runs_and_written_of_one_holds_no_marker(
    desk: Desk, tmp_path: Path
) -> None:
    _, ended = desk.run(BAD, overseer(text=f"It is {CANDIDATE}."), GOOD)
    desk.cli("projector", "--once")
    shown = {name: desk.cli(name) for name in OF_ALL_RUNS}
    shown |= {f"{name} --json": desk.cli(name, "--json") for name in OF_ALL_RUNS if name != "tail"}
    shown |= {"workspace": desk.cli("workspace", ended.state.run, "--to", str(tmp_path))}
    shown |= {str(file): file.read_text() for file in tmp_path.rglob("*") if file.is_file()}

    for where, text in shown.items():
        for marker in (CANDIDATE, REASONING, API_KEY):
            assert marker not in text, f"{marker} in {where}"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["people", "programs"])
def test_ovr10_what_run_prints_holds_no_marker(
    bare: Desk, tmp_path: Path, command: Callable[..., Any], form: list[str]
) -> None:
    """It works the run in its own process, whose log at DEBUG stands among its progress."""
    model = bare.model(BAD, overseer(text=f"It is {CANDIDATE}."), GOOD)
    node = {"id": "a", "kind": "agent", "prompt": TRANSCRIPT, "output_schema": SCHEMA}
    settings = {"model": "openai/m", "api_base": model.url}
    file = tmp_path / "flow.yaml"
    file.write_text(json.dumps({"name": "f", "settings": settings, "nodes": [node]}))

    done = command(
        *("run", str(file), "--run-id", "shown", *form),
        MULLIGAN_REDIS_URL=bare.server.url,
        MULLIGAN_LOG_LEVEL="debug",
        OPENAI_API_KEY=API_KEY,
    )

    bare.runs.append("shown")
    assert 0 == done.returncode, done.stderr
    assert [*ASKED, "missing_arguments"] == repairs(bare.events("shown"))
    for marker in (CANDIDATE, REASONING, API_KEY, TRANSCRIPT):
        assert marker not in done.stdout + done.stderr


# --- Outside a run -------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [REPAIRED, overseer(text="No.")], ids=["repaired", "not"])
def test_rec29_a_single_call_has_the_same_overseer(desk: Desk, said: dict[str, Any]) -> None:
    model = desk.model(BAD, said, GOOD)

    done = mulligan.invoke("Count.", output=SCHEMA, model="scripted/m", api_base=model.url)

    repaired = said is REPAIRED
    assert {"n": 1 if repaired else 2} == done.output
    assert [*ASKED, "Succeeded" if repaired else "missing_arguments"] == repairs(list(done.events))
    assert (1, 0 if repaired else 1) == (len(model.overseers), done.recovery.used)
    assert 1 == done.overseer_usage["m"].requests
    assert CANDIDATE not in repr(done)
    assert CANDIDATE not in str(done)


def test_ovr10_the_error_of_a_single_call_holds_no_candidate(desk: Desk) -> None:
    model = desk.model(BAD, overseer(text=CANDIDATE), submit(VIOLATION, 2))

    with pytest.raises(InvocationFailed) as caught:
        mulligan.invoke(
            "Count.", output=SCHEMA, model="scripted/m", api_base=model.url, recovery_limit=1
        )

    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    links = [caught.value.__cause__, caught.value.__context__, caught.value.__dict__]
    assert CANDIDATE not in told + repr(links)
    assert "schema_violation" == caught.value.code


# --- Crashes -------------------------------------------------------------------------------------

POINTS = {
    "the candidate is in the log, nobody has begun": ("append.after:2", "repaired", 1),
    "the overseer's task is taken": ("task.claimed:2", "repaired", 1),
    "before its intent": ("append.before:3", "repaired", 1),
    "its intent is in the log": ("append.after:3", "interrupted", 0),
    "before it is sent": ("model.before:2", "interrupted", 0),
    "after it was answered": ("model.after:2", "interrupted", 1),
    "before the answer is recorded": ("append.before:4", "interrupted", 1),
    "the answer is in the log": ("append.after:4", "repaired", 1),
}
"""Where a worker is lost, what becomes of the repair, and how often the overseer was asked."""

everywhere = pytest.mark.parametrize("name", POINTS)


@pytest.fixture
def bare(forked: Callable[..., Any]) -> Iterator[Desk]:
    """A desk of its own server, without a worker yet."""
    with ValkeyServer() as server:
        desk = Desk(server, forked)
        yield desk
        assert_nothing_is_kept(desk)
        desk.close()


def assert_outcome(desk: Desk, model: Model, run: str, became: str, asked: int) -> None:
    until(lambda: desk.client.status(run).ended, 60.0, desk.told)
    ended = desk.ended(run)
    if became == "repaired":
        assert [*ASKED, "Succeeded"] == ended.repairs
        assert ({"n": 1}, []) == (ended.output, ended.reasons)
    else:
        assert [*ASKED, "interrupted"] == ended.repairs
        assert ({"n": 2}, ["schema_violation"]) == (ended.output, ended.reasons)
    assert asked == len(model.overseers)
    assert "completed" == ended.state.status


@everywhere
def test_ovr11_a_worker_is_killed(bare: Desk, name: str) -> None:
    point, became, asked = POINTS[name]
    dying = bare.fork(f"{point}:kill")
    model = bare.model(BAD, {**REPAIRED, "times": 3}, GOOD)
    run = bare.enqueue(bare.flow(model))
    until(lambda: not dying.alive, 30.0, bare.told)

    bare.fork()

    assert_outcome(bare, model, run, became, asked)


@everywhere
def test_ovr11_a_worker_hangs_beyond_its_lease_and_wakes(bare: Desk, name: str) -> None:
    point, became, asked = POINTS[name]
    hanging = bare.fork(f"{point}:stop")
    model = bare.model(BAD, {**REPAIRED, "times": 3}, GOOD)
    run = bare.enqueue(bare.flow(model))
    until(lambda: hanging.stopped, 30.0, bare.told)

    bare.fork()
    until(lambda: bare.client.status(run).ended, 60.0, bare.told)
    before = len(bare.events(run))
    hanging.wake()
    until(lambda: woken(bare, hanging), 30.0, bare.told)

    assert before == len(bare.events(run)), "who wakes late decides nothing"
    if point == "model.before:2":
        # It may still have been about to send; its lease is over, and so it must not.
        asked = len(model.overseers)
        assert asked <= 1
    assert_outcome(bare, model, run, became, asked)


def woken(desk: Desk, worker: Any) -> bool:
    """Whether a worker that was stopped runs again and works what it is given."""
    model = desk.model({"json": {"n": 9}})
    probe = desk.client.enqueue(desk.flow(model))
    desk.client.wait(probe, timeout_s=30)
    return bool(worker.alive and not worker.stopped)


def test_ovr11_a_worker_is_killed_during_the_call(bare: Desk) -> None:
    dying = bare.fork()
    model = bare.model(BAD, {**REPAIRED, "delay_ms": 20_000, "times": 3}, GOOD)
    run = bare.enqueue(bare.flow(model))
    until(lambda: model.overseers, 30.0, bare.told)
    os.kill(dying.pid, signal.SIGKILL)

    bare.fork()

    assert_outcome(bare, model, run, "interrupted", 1)


def test_ovr11_a_worker_hangs_during_the_call(bare: Desk) -> None:
    """Another records that nobody will know; the answer that the first one gets counts no more."""
    hanging = bare.fork()
    model = bare.model(BAD, {**REPAIRED, "delay_ms": 1_500, "times": 3}, GOOD)
    run = bare.enqueue(bare.flow(model))
    until(lambda: model.overseers, 30.0, bare.told)
    os.kill(hanging.pid, signal.SIGSTOP)

    bare.fork()
    until(lambda: bare.client.status(run).ended, 30.0, bare.told)
    hanging.wake()
    until(lambda: woken(bare, hanging), 30.0, bare.told)

    assert_outcome(bare, model, run, "interrupted", 1)


def test_ovr7_a_candidate_that_is_gone_is_told(bare: Desk) -> None:
    dying = bare.fork("append.after:2:kill")
    model = bare.model(BAD, REPAIRED, GOOD)
    run = bare.enqueue(bare.flow(model))
    until(lambda: not dying.alive, 30.0, bare.told)
    with connect(bare.server.url) as client:
        sealed = Keys(0).sealed(overseer_task(run, "a", 1))
        assert CANDIDATE.encode() in client.get(sealed)
        assert 0 < client.pttl(sealed) <= 900_000
        client.delete(sealed)

    bare.fork()

    until(lambda: bare.client.status(run).ended, 30.0, bare.told)
    ended = bare.ended(run)
    assert ["Requested", "candidate_expired"] == ended.repairs
    assert ({"n": 2}, []) == (ended.output, model.overseers)


# --- Cancellation --------------------------------------------------------------------------------


@everywhere
def test_ovr9_cancellation_wins_at_every_instant(bare: Desk, name: str) -> None:
    point, _, _ = POINTS[name]
    hanging = bare.fork(f"{point}:stop")
    model = bare.model(BAD, {**REPAIRED, "times": 3}, GOOD)
    run = bare.enqueue(bare.flow(model))
    until(lambda: hanging.stopped, 30.0, bare.told)
    over = "Succeeded" in repairs(bare.events(run))
    assert over == (name == "the answer is in the log")

    bare.client.cancel(run)
    bare.fork()
    until(lambda: bare.client.status(run).ended, 60.0, bare.told)
    hanging.wake()
    until(lambda: woken(bare, hanging), 30.0, bare.told)

    ended = bare.ended(run)
    assert "cancelled" == ended.state.status
    assert over == ("Succeeded" in ended.repairs), "a late success is dropped"
    assert [] == ended.of(facts.OutputRepairFailed)
    assert [] == ended.of(facts.AllowanceReserved)
    assert [] == sealed_keys(bare.server), "what was sealed goes with its run (OVR-10)"


def sealed_keys(server: ValkeyServer) -> list[bytes]:
    """The keys of all candidates that are still kept."""
    with connect(server.url) as client:
        return [key for key in client.scan_iter() if b":sealed:" in key]


def test_ovr9_cancellation_during_the_call_hangs_up(desk: Desk) -> None:
    model = desk.model(BAD, {**REPAIRED, "fault": {"kind": "stall", "at_byte": 20}})
    run = desk.enqueue(desk.flow(model))
    until(lambda: model.overseers, 30.0, desk.told)

    desk.client.cancel(run)

    until(lambda: desk.client.status(run).ended, 5.0, desk.told)
    ended = desk.ended(run)
    assert ("cancelled", ASKED) == (ended.state.status, ended.repairs)
    until(lambda: model.overseers[0].outcome == "disconnected", 30.0)


# --- Are the markers really looked for? ----------------------------------------------------------


def test_ovr10_the_search_for_markers_finds_them(valkey: ValkeyServer) -> None:
    desk = Desk(valkey)
    with connect(valkey.url) as client:
        client.xadd("leak", {"d": f"… {CANDIDATE} …"})
        with pytest.raises(AssertionError, match="leak"):
            assert_nothing_is_kept(desk)
        client.delete("leak")
    desk.close()


def test_an_earlier_tests_run_does_not_count_where_its_model_had_the_same_port(
    valkey: ValkeyServer, worker: WorkerProcess, accounts: Any
) -> None:
    """Ports come again; a run that ended before a test began has asked nobody in it."""
    earlier, desk = Desk(valkey), Desk(valkey)
    model, _ = earlier.run({"json": {"n": 1}})
    earlier.close()
    later = type(accounts)()
    with pytest.MonkeyPatch.context() as patch:
        later.watch(patch)
        with ScriptedModel([{"json": {"n": 1}}], port=model.port):
            desk.close()

    assert [] == later.settled()
    assert 1 == len(model.requests)
