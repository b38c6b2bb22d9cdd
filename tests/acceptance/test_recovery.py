"""
Recovery through the public entry points, over real HTTP against a model that misbehaves: as a run,
and as a single call, synchronous and asynchronous. In every test the requests that the server
received are the `ModelRequested` events of the log.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mulligan
from mulligan.client import Client
from mulligan.events import facts
from mulligan.projections.advice import why
from mulligan.projections.history import problems
from mulligan.projections.state import RunState
from mulligan.providers.exchange import Deadlines
from mulligan.providers.router import ModelRouter
from mulligan.schemas.builder import Workflow
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ReceivedRequest, ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.stage import RETRY, SCHEMA, TOOLS, Ended, Entry, Stage
from mulligan.testing.waiting import until
from mulligan.testing.worker import WorkerProcess

pytestmark = pytest.mark.server

GOOD = {"json": {"n": 3}}
BAD = {"json": {"n": "canary-2209"}}
EMPTY: dict[str, Any] = {"text": ""}
UNAVAILABLE = {"fault": {"kind": "status", "status": 503}}
RESET = {"fault": {"kind": "reset"}}
EOF = {**GOOD, "fault": {"kind": "eof"}}
LOOK = {"tool_calls": [{"name": "look", "arguments": {"q": "tea"}}]}


@contextmanager
def playing(*turns: Any) -> Iterator[ScriptedModel]:
    with ScriptedModel(list(turns)) as model:
        yield model


def hold(model: ScriptedModel, ended: Ended) -> None:
    """What is true of every one of these tests."""
    asked = [fact.request_id for fact in ended.of(facts.ModelRequested)]
    assert asked == [one.headers["x-mulligan-request"] for one in model.requests]
    assert [] == problems(ended.events)
    assert len(of_agents(model)) == ended.recovery.requests
    assert b"canary-2209" not in msgspec.json.encode(ended.events)
    for request in of_agents(model):
        assert "canary-2209" not in str(request.body)


def of_agents(model: ScriptedModel) -> list[ReceivedRequest]:
    """What the server was asked by agents; the overseer, which no script here answers, fails."""
    return [one for one in model.requests if ".overseer." not in one.headers["x-mulligan-request"]]


RECOVERED: dict[str, tuple[list[Any], list[str], int]] = {
    "empty EOF": ([{"fault": {"kind": "empty"}}, GOOD], ["eof"], 1),
    "empty EOF with [DONE]": ([{"fault": {"kind": "empty", "done": True}}, GOOD], ["eof"], 1),
    "partial EOF": ([{**GOOD, "fault": {"kind": "eof", "at_byte": 300}}, GOOD], ["eof"], 1),
    "EOF after a whole value": ([EOF, GOOD], ["eof"], 1),
    "EOF after a whole value with [DONE]": (
        [{**GOOD, "fault": {"kind": "eof", "done": True}}, GOOD],
        ["eof"],
        1,
    ),
    "connection closed in the middle": (
        [{**GOOD, "fault": {"kind": "cut", "at_byte": 300}}, GOOD],
        ["eof"],
        1,
    ),
    "length with a repairable prefix": (
        [
            {
                "tool_calls": [{"name": "submit_output", "arguments": '{"output": {"n": 3}'}],
                "finish_reason": "length",
            },
            GOOD,
        ],
        ["length"],
        1,
    ),
    "length with a valid prefix": ([{**GOOD, "finish_reason": "length"}, GOOD], ["length"], 1),
    "length relabelled as tool_calls": (
        [{**GOOD, "fault": {"kind": "relabel"}}, GOOD],
        ["length"],
        1,
    ),
    "invalid JSON": (
        [{"tool_calls": [{"name": "submit_output", "arguments": "so, {3} or {4}"}]}, GOOD],
        ["invalid_json"],
        1,
    ),
    "wrong envelope": (
        [
            {"tool_calls": [{"name": "submit_output", "arguments": {"what": 3, "why": 4}}]},
            GOOD,
        ],
        ["wrong_envelope"],
        1,
    ),
    "schema violation": ([BAD, GOOD], ["schema_violation"], 1),
    "empty turn": ([EMPTY, GOOD], ["empty_turn"], 1),
    "mixed turn": (
        [
            {
                "tool_calls": [
                    {"name": "look", "arguments": {"q": "x"}},
                    {"name": "submit_output", "arguments": '{"output": {"n": 3}}'},
                ]
            },
            GOOD,
        ],
        ["mixed_turn"],
        1,
    ),
    "prose that looks like a call": (
        [{"text": '<tool_call>{"name": "look", "arguments": {"q": "x"}}</tool_call>'}, GOOD],
        ["wrong_envelope"],
        1,
    ),
    "refund after transport success": (
        [UNAVAILABLE, RESET, GOOD],
        ["transport", "transport"],
        0,
    ),
    "rate limit with Retry-After": (
        [{"fault": {"kind": "status", "status": 429, "retry_after": 0.1}}, GOOD],
        ["transport"],
        0,
    ),
    "error inside a stream": ([{**GOOD, "fault": {"kind": "error_event"}}, GOOD], ["transport"], 0),
    "a web page": ([{"fault": {"kind": "html"}}, GOOD], ["transport"], 0),
    "mixed transport and validation": (
        [RESET, BAD, UNAVAILABLE, GOOD],
        ["transport", "schema_violation", "transport"],
        1,
    ),
    "no [DONE]": ([{**GOOD, "fault": {"kind": "no_done"}}], [], 0),
}


@pytest.mark.parametrize("name", RECOVERED)
def test_rec3_rec4_rec11_rec12_rec13_rec14_rec15_recovered(
    name: str, entry: Entry, stage: Stage
) -> None:
    turns, reasons, used = RECOVERED[name]
    stage.forget()
    with playing(*turns) as model:
        ended = entry(model, tools=[1])

        hold(model, ended)
    assert ("completed", {"n": 3}) == (ended.status, ended.output)
    assert reasons == ended.reasons
    assert (used, "active") == (ended.recovery.used, ended.recovery.phase)
    assert [] == stage.looked, "nothing of a rejected turn is run"
    accepted = next(e for e in ended.events if isinstance(e.data, facts.OutputAccepted))
    assert 1 + len(reasons) == accepted.attempt
    for earlier in of_agents(model)[1:]:
        assert '"n": 3' not in str(earlier.body["messages"]), "nothing partial is shown again"


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (UNAVAILABLE, "unavailable"),
        (RESET, "disconnected|reset"),
        (EMPTY, "empty_turn"),
        (BAD, "schema_violation"),
        (EOF, "eof"),
        ({**GOOD, "finish_reason": "length"}, "length"),
    ],
)
def test_rec5_a_limit_of_0_pauses_at_once_with_the_cause(
    turn: Any, code: str, entry: Entry, stage: Stage
) -> None:
    with playing(turn, GOOD) as model:
        ended = entry(model, recovery_limit=0)

        hold(model, ended)
        assert 1 == len(model.requests)
    assert ("paused", "exhausted", "paused") == (
        ended.status,
        ended.reason,
        ended.recovery.phase,
    )
    assert ended.code in code.split("|")


def test_rec8_exhaustion_keeps_the_original_cause(entry: Entry, stage: Stage) -> None:
    with playing(EMPTY, UNAVAILABLE, UNAVAILABLE, GOOD) as model:
        ended = entry(model, recovery_limit=2)

        hold(model, ended)
    cause = ended.recovery.cause
    assert cause is not None
    assert ("unavailable", 503) == (cause.kind, cause.status)
    assert (True, True, 2, 3) == (
        ended.recovery.exhausted,
        ended.recovery.transport_exhausted,
        ended.recovery.used,
        ended.recovery.requests,
    )
    order = [type(event.data).__name__ for event in ended.events]
    assert order.index("AllowanceExhausted") < order.index("NodePaused")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"status": 401}, "unauthorized"),
        ({"status": 403}, "forbidden"),
        ({"status": 404}, "not_found"),
        ({"status": 429, "quota": True}, "quota"),
        ({"status": 400}, "bad_request"),
    ],
)
def test_rec9_rec17_a_providers_error_is_returned_as_one(
    fault: dict[str, Any], code: str, entry: Entry, stage: Stage
) -> None:
    with playing({"fault": {"kind": "status", **fault}}, GOOD) as model:
        ended = entry(model)

        hold(model, ended)
        assert 1 == len(model.requests)
    assert ("failed", code) == (ended.status, ended.code)
    assert [] == ended.reasons


def test_rec9_a_refusal_fails_at_once(entry: Entry, stage: Stage) -> None:
    with playing({"text": "", "refusal": "I will not."}, GOOD) as model:
        ended = entry(model)

        hold(model, ended)
    assert ("failed", "refused") == (ended.status, ended.code)


@pytest.mark.parametrize(
    "broken",
    [
        {"tool_calls": [{"name": "look", "arguments": '{"q": "canary-2209'}]},
        {**LOOK, "fault": {"kind": "cut", "at_byte": 400}},
        {**LOOK, "fault": {"kind": "eof"}},
        {**LOOK, "finish_reason": "length"},
    ],
)
def test_rec12_a_partial_tool_call_is_never_executed(
    broken: Any, entry: Entry, stage: Stage
) -> None:
    stage.forget()
    with playing(broken, GOOD) as model:
        ended = entry(model, tools=[1])

        hold(model, ended)
    assert "completed" == ended.status
    assert [] == stage.looked


def test_rec23_a_tool_that_completed_stays_completed_through_every_retry(
    entry: Entry, stage: Stage
) -> None:
    stage.forget()
    with playing(LOOK, UNAVAILABLE, EOF, BAD, GOOD) as model:
        ended = entry(model, tools=[1], recovery_limit=3)

        hold(model, ended)
        for request in of_agents(model)[1:]:
            results = [m["content"] for m in request.body["messages"] if m["role"] == "tool"]
            assert ["found tea"] == results
    assert "completed" == ended.status
    assert ["tea"] == stage.looked


def test_rec23_calls_that_share_an_id_are_told_apart(entry: Entry, stage: Stage) -> None:
    """Each result stays with its call; where ids repeat, ours take the place of the provider's."""
    stage.forget()
    calls = [{"name": "look", "arguments": {"q": q}, "id": "same"} for q in ("tea", "milk")]
    with playing({"tool_calls": calls}, GOOD) as model:
        ended = entry(model, tools=[1])

        hold(model, ended)
        messages = model.requests[1].body["messages"]
    made = {
        one["id"]: one["function"]["arguments"] for m in messages for one in m.get("tool_calls", ())
    }
    told = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert "completed" == ended.status
    assert [("tea", "found tea"), ("milk", "found milk")] == [
        (json.loads(arguments)["q"], told[name]) for name, arguments in made.items()
    ]


def test_rec16_a_loop_is_stopped_while_it_streams(entry: Entry, stage: Stage) -> None:
    loop = {"text": "", "fault": {"kind": "loop", "text": "and on ", "times": 200_000}}
    with playing(loop, GOOD) as model:
        ended = entry(model)

        hold(model, ended)
        until(lambda: model.requests[0].outcome == "disconnected")
    assert ("completed", ["repetitive_output"]) == (ended.status, ended.reasons)
    assert ended.of(facts.ModelAnswered)[0].usage is None


def test_rec18_a_timeout_of_the_node_ends_it_with_its_own_reason(
    entry: Entry, stage: Stage
) -> None:
    with playing({**GOOD, "delay_ms": 20_000}) as model:
        began_s = time.monotonic()
        ended = entry(model, timeout="3s")

        assert time.monotonic() - began_s < 15
        hold(model, ended)
    assert ("failed", "deadline_exceeded") == (ended.status, ended.code)
    assert [] == ended.reasons


@pytest.mark.parametrize("retry_after", [3600, 1e300, 1e308])
def test_rec17_a_retry_after_beyond_the_deadline_is_not_waited_for(
    retry_after: float, entry: Entry, stage: Stage
) -> None:
    """However large the number is: some are beyond what a log or a timer can hold."""
    late = {"fault": {"kind": "status", "status": 429, "retry_after": retry_after}}
    with playing(late, GOOD) as model:
        ended = entry(model, timeout="30s")

        hold(model, ended)
    assert ("failed", "deadline_exceeded") == (ended.status, ended.code)


def test_rec17_the_provider_is_left_alone_as_long_as_was_announced(
    entry: Entry, stage: Stage
) -> None:
    with playing(UNAVAILABLE, UNAVAILABLE, GOOD) as model:
        ended = entry(model)

        hold(model, ended)
        sent = [datetime.fromisoformat(one.time) for one in model.requests]
    announced = [fact.delay_ms for fact in ended.of(facts.AllowanceReserved)]
    assert all(10 <= delay_ms <= 40 for delay_ms in announced), announced
    waited = [1_000 * (b - a).total_seconds() for a, b in itertools.pairwise(sent)]
    assert all(real >= told - 2 for real, told in zip(waited, announced, strict=True))


def test_rec20_rec21_the_default_cap_is_sent_and_told_apart_from_what_was_asked(
    entry: Entry, stage: Stage
) -> None:
    limits = {"context_window": 8_000, "max_output_tokens": 500}
    with playing(GOOD) as model:
        ended = entry(model, limits=limits)

        hold(model, ended)
        assert 500 == model.requests[0].body["max_tokens"]
    requested = ended.of(facts.ModelRequested)[0]
    assert ({}, 500) == (requested.asked, requested.sent["max_tokens"])


def test_rec20_no_cap_is_invented(entry: Entry, stage: Stage) -> None:
    with playing(GOOD) as model:
        hold(model, entry(model))
        assert "max_tokens" not in model.requests[0].body


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_rec24_every_mode_takes_an_output_and_is_in_the_log(
    mode: str, entry: Entry, stage: Stage
) -> None:
    with playing(BAD, GOOD) as model:
        ended = entry(model, mode=mode)

        hold(model, ended)
        first = model.requests[0].body
    assert ("completed", {"n": 3}) == (ended.status, ended.output)
    assert [mode, "prompt", mode] == [fact.mode for fact in ended.of(facts.ModelRequested)]
    assert (mode == "native") == ("response_format" in first)
    assert (mode == "tool") == ("tools" in first)
    assert (mode == "prompt") == ('"integer"' in first["messages"][0]["content"])


def test_rec20_older_tool_rounds_are_shortened_before_a_request(entry: Entry, stage: Stage) -> None:
    stage.forget()
    long = [
        {
            "tool_calls": [{"name": "look", "arguments": {"q": f"{n}" + "t" * 3_000}}],
            "usage": None,
        }
        for n in range(4)
    ]
    limits = {"context_window": 8_000, "max_output_tokens": 500}
    with playing(*long, GOOD) as model:
        ended = entry(model, tools=[1], limits=limits)

        hold(model, ended)
        last = [m["content"] for m in model.requests[-1].body["messages"] if m["role"] == "tool"]
    assert "completed" == ended.status
    assert "sha256" in last[0]
    assert len(last[0]) < 500
    assert len(last[-1]) > 3_000
    assert "agent.4.1" not in {c for f in ended.of(facts.HistoryCompacted) for c in f.call_ids}
    assert 4 == len(stage.looked)


def test_rec20_what_can_not_fit_is_not_sent(entry: Entry, stage: Stage) -> None:
    with playing(GOOD) as model:
        ended = entry(model, limits={"context_window": 300, "max_output_tokens": 100})

        hold(model, ended)
        assert [] == model.requests
    assert ("paused", "context_exceeded") == (ended.status, ended.reason)


def test_rec19_the_whole_output_of_the_model_twice_is_exhausted_by_length(
    entry: Entry, stage: Stage
) -> None:
    cut = {**GOOD, "finish_reason": "length"}
    limits = {"context_window": 8_000, "max_output_tokens": 500}
    with playing(cut, cut, GOOD) as model:
        ended = entry(model, limits=limits, recovery_limit=5)

        hold(model, ended)
        assert 2 == len(model.requests)
    assert ("paused", "exhausted", "length") == (ended.status, ended.reason, ended.code)


def test_rec21_what_was_not_reported_is_unknown(entry: Entry, stage: Stage) -> None:
    with playing({**GOOD, "usage": None}) as model:
        ended = entry(model)

        hold(model, ended)
    assert ended.of(facts.ModelAnswered)[0].usage is None


# --- Cancellation --------------------------------------------------------------------------------


def waits(state: RunState) -> bool:
    return any(one.timer_due_ms is not None for one in state.invocations.values())


def test_rec27_cancelled_during_a_stream_the_request_is_aborted_within_a_second(
    stage: Stage,
) -> None:
    endless = {"text": "words " * 5_000, "chunks": 5, "chunk_delay_ms": 50}
    with playing(endless, GOOD) as model:
        run = stage.enqueue(model)
        until(lambda: bool(model.requests))
        stage.client.cancel(run)
        began_s = time.monotonic()
        until(lambda: model.requests[0].outcome == "disconnected", 5)
        assert time.monotonic() - began_s < 2, "a second, and what the machine takes"
        ended = stage.ended(run)

        hold(model, ended)
        assert 1 == len(model.requests)
    assert ("cancelled", "cancelled") == (ended.status, ended.recovery.phase)
    assert 0 == ended.recovery.used


def test_rec27_cancelled_during_a_retry_wait_nothing_more_is_sent(stage: Stage) -> None:
    late = {"fault": {"kind": "status", "status": 429, "retry_after": 3600}}
    with playing(late, GOOD) as model:
        run = stage.enqueue(model)
        until(lambda: waits(stage.client.status(run)))
        stage.client.cancel(run)
        ended = stage.ended(run)

        hold(model, ended)
        assert 1 == len(model.requests)
    assert ("cancelled", "cancelled") == (ended.status, ended.recovery.phase)


@pytest.mark.parametrize(
    "turn",
    [
        {"text": "words " * 5_000, "chunks": 5, "chunk_delay_ms": 50},
        {"fault": {"kind": "status", "status": 429, "retry_after": 3600}},
    ],
    ids=["stream", "wait"],
)
def test_rec27_rec29_a_cancelled_ainvoke_sends_nothing_more(turn: Any, stage: Stage) -> None:
    async def call(model: ScriptedModel) -> float:
        asked = asyncio.create_task(mulligan.ainvoke("Count.", **stage.call_options(model, {})))
        while not model.requests or (model.requests[0].outcome is None and "fault" in turn):
            await asyncio.sleep(0.01)
        began_s = time.monotonic()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        return time.monotonic() - began_s

    with playing(turn, GOOD) as model:
        assert asyncio.run(call(model)) < 2
        assert 1 == len(model.requests)
        until(lambda: model.requests[0].outcome is not None)


# --- Resume --------------------------------------------------------------------------------------


def test_rec8_a_resumed_run_goes_on_with_a_fresh_allowance_and_its_tools_completed(
    stage: Stage,
) -> None:
    stage.forget()
    with playing(LOOK, EMPTY, EMPTY, EMPTY, GOOD) as model:
        run = stage.enqueue(model, tools=[1], recovery_limit=1)
        paused = stage.ended(run)
        assert ("paused", "exhausted") == (paused.status, paused.reason)
        assert "empty_turn" in paused.code
        assert "exhausted" in why(paused.state)

        stage.client.resume(run)
        until(lambda: len(model.requests) == 5)
        until(lambda: stage.client.status(run).status == "completed")
        ended = stage.ended(run)

        hold(model, ended)
    assert (2, 1, 1) == (
        ended.recovery.number,
        ended.recovery.resumed_from,
        ended.recovery.used,
    )
    assert ["tea"] == stage.looked


def test_rec6_a_called_agent_recovers_by_its_own_allowance(stage: Stage) -> None:
    call = {"tool_calls": [{"name": "call_subagent", "arguments": {"subagent": "c", "input": 1}}]}
    own = {"match": {"invocation": "agent"}}
    called = {"match": {"invocation": "agent.1.1"}}
    turns = [
        {**call, **own},
        {**UNAVAILABLE, **called},
        {**EMPTY, **called},
        {**GOOD, **called},
        {**GOOD, **own},
    ]
    with playing(*turns) as model:
        flow = Workflow("flow", model="scripted/m", api_base=model.url, retry=RETRY)
        flow.subagent("c", prompt="Check.", output=SCHEMA, recovery_limit=1)
        flow.agent("agent", prompt="Count.", output=SCHEMA, subagents=["c"], recovery_limit=0)
        ended = stage.ended(stage.client.enqueue(flow))

        asked = [fact.request_id for fact in ended.of(facts.ModelRequested)]
        assert asked == [one.headers["x-mulligan-request"] for one in model.requests]
    assert "completed" == ended.status
    recoveries = {one.id: one.recovery for one in ended.state.invocations.values()}
    assert (0, 1, "agent") == (
        recoveries["agent"].used,
        recoveries["agent.1.1"].used,
        recoveries["agent.1.1"].parent_id,
    )


def test_rec4_nodes_side_by_side_wait_and_recover_each_in_its_own_task(stage: Stage) -> None:
    turns = [
        {**turn, "match": {"node": node}}
        for node in ("left", "right")
        for turn in (UNAVAILABLE, BAD, GOOD)
    ]
    with playing(*turns) as model:
        flow = Workflow("flow", model="scripted/m", api_base=model.url, retry=RETRY)
        for node in ("left", "right"):
            flow.agent(node, prompt="Count.", output=SCHEMA)
        ended = stage.ended(stage.client.enqueue(flow))

        asked = {fact.request_id for fact in ended.of(facts.ModelRequested)}
        assert asked == {one.headers["x-mulligan-request"] for one in model.requests}
        assert 6 + 2 == len(asked) == len(model.requests), "two by the overseer"
    assert "completed" == ended.status
    assert [1, 1] == [one.recovery.used for one in ended.state.invocations.values()]


def test_rec23_rec33_a_worker_that_is_killed_costs_no_allowance_and_repeats_no_tool(
    tmp_path: Path,
) -> None:
    (tmp_path / "killed_tools.py").write_text(TOOLS)
    (tmp_path / "flow.yaml").write_text(
        "name: killed\n"
        "settings: {model: scripted/m, recovery_limit: 1}\n"
        "nodes:\n"
        "  - {id: agent, kind: agent, prompt: Count., tools: ['killed_tools:look'],\n"
        "     output_schema: {type: object, properties: {n: {type: integer}}, required: [n]}}\n"
    )
    first = {**LOOK, "match": {"rounds": 0}, "times": "always"}
    then = [{**turn, "match": {"rounds": 1, "attempt": n}, "times": "always"} for n, turn in
            enumerate((EMPTY, GOOD), start=1)]  # fmt: skip
    with (
        playing(first, *then) as model,
        ValkeyServer() as own,
        WorkerProcess(own.url, api_base=model.url, crash_at="model.after:3:kill", folder=tmp_path),
        Client(Settings(redis_url=own.url)) as client,
    ):
        run = client.enqueue(str(tmp_path / "flow.yaml"))
        state = client.wait(run, timeout_s=60)
        events = list(client.events(run))
    assert "completed" == state.status
    asked = [event.data for event in events if isinstance(event.data, facts.ModelRequested)]
    assert [one.request_id for one in asked] == [
        one.headers["x-mulligan-request"] for one in model.requests
    ]
    assert any(isinstance(event.data, facts.ModelInterrupted) for event in events)
    assert 1 == state.invocations["agent"].recovery.used
    assert ["tea"] == (tmp_path / "calls").read_text().split()


def test_rec18_a_silent_stream_is_a_failure_of_the_transport(stage: Stage) -> None:
    stalled = {**GOOD, "fault": {"kind": "stall", "at_byte": 200}}
    provider = ModelRouter(lambda name: None, deadlines=Deadlines(idle_ms=200))
    with playing(stalled, GOOD) as model:
        options = stage.call_options(model, {"provider": provider})
        done = mulligan.invoke("Count.", **options)

        assert {"n": 3} == done.output
        assert 2 == len(model.requests)
    reserved = [e.data for e in done.events if isinstance(e.data, facts.AllowanceReserved)]
    assert ["idle_timeout"] == [fact.cause.kind for fact in reserved if fact.cause]
    provider.close()


def test_rec29_calls_side_by_side_have_each_its_own_allowance(stage: Stage) -> None:
    async def both(model: ScriptedModel) -> list[Any]:
        calls = [mulligan.ainvoke("Count.", **stage.call_options(model, {})) for _ in range(3)]
        return await asyncio.gather(*calls)

    turns = [{**EMPTY, "match": {"attempt": 1}, "times": 3}, {**GOOD, "times": 3}]
    with playing(*turns) as model:
        done = asyncio.run(both(model))
        assert 6 == len(model.requests)

    assert [1, 1, 1] == [one.recovery.used for one in done]
    assert threading.active_count() < 60
