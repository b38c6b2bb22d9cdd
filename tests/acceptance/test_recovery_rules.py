"""
The rules of recovery that hold whatever fails, each through every public entry point and over real
HTTP (REC-29): who decides, what is announced, what limits mean, what the log keeps.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import msgspec
import pytest

import mulligan
from mulligan.async_client import AsyncClient
from mulligan.commands.published import published_text
from mulligan.errors import InvocationFailed, WorkflowInvalid
from mulligan.events import facts
from mulligan.projections import recovery as recoveries
from mulligan.projections import trace as traces
from mulligan.projections.run import fold
from mulligan.providers.litellm import import_litellm
from mulligan.schemas.builder import Workflow
from mulligan.testing.recovery_cells import EMPTY, GOOD, LOOK
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.stage import PROMPT, RETRY, SCHEMA, Ended, Entry, Stage

pytestmark = pytest.mark.server

UNAVAILABLE = {"fault": {"kind": "status", "status": 503}}
BAD = {"json": {"n": "three"}}


@pytest.fixture(scope="module")
def hosted() -> None:
    """The library that hosted models are asked by is there; its import takes seconds of CPU."""
    import_litellm()


def types(ended: Ended) -> list[str]:
    return [event.type for event in ended.events]


# --- Who decides ---------------------------------------------------------------------------------


def test_rec1_an_allowance_is_folded_from_the_events_alone(entry: Entry) -> None:
    with ScriptedModel([UNAVAILABLE, BAD, GOOD]) as model:
        ended = entry(model)

    again = fold(ended.events[0].run, ended.events)
    assert ended.state == again
    assert ["dispatch", "reserve", "dispatch", "refund", "reserve", "dispatch"] == [
        one.kind for one in ended.recovery.entries
    ]
    assert (1, 2, 3, "active", None) == (
        ended.recovery.used,
        ended.recovery.limit,
        ended.recovery.requests,
        ended.recovery.phase,
        ended.recovery.parent_id,
    )


@pytest.mark.parametrize("limit", [0, 2])
def test_rec2_no_layer_multiplies_the_allowance(
    limit: int, entry: Entry, hosted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the library that hosted models are asked by, whose own retries are off."""
    monkeypatch.setenv("OPENAI_API_KEY", "no-key-at-all")
    limited = {"fault": {"kind": "status", "status": 429, "retry_after": 0.01}, "times": "always"}
    with ScriptedModel([limited]) as model:
        ended = entry(model, model="openai/m", recovery_limit=limit)

        assert 1 + limit == len(model.requests)
    assert ("paused", "rate_limit") == (ended.status, ended.code)


def test_rec7_each_retry_is_announced_and_the_output_names_its_attempt(entry: Entry) -> None:
    with ScriptedModel([UNAVAILABLE, EMPTY, GOOD]) as model:
        ended = entry(model)

        sent = [one.headers["x-mulligan-attempt"] for one in model.requests]
    assert ["1", "2", "3"] == sent
    announced = [e for e in ended.events if isinstance(e.data, facts.AllowanceReserved)]
    assert [(1, 2), (2, 3)] == [(event.attempt, event.data.next_attempt) for event in announced]
    assert [True, False] == [event.data.delay_ms is not None for event in announced]
    kinds = types(ended)
    for event in announced:
        assert "ModelRequested" in kinds[event.version :], "before it happens"
    (accepted,) = [e for e in ended.events if isinstance(e.data, facts.OutputAccepted)]
    assert ("agent", 3) == (accepted.data.invocation, accepted.attempt)


def test_rec10_limits_of_the_user_are_never_changed_and_tokens_have_no_quota(entry: Entry) -> None:
    much = {"prompt_tokens": 900_000_000, "completion_tokens": 1}
    turns = [{**EMPTY, "usage": much}, {**GOOD, "finish_reason": "length"}, GOOD]
    with ScriptedModel(turns) as model:
        ended = entry(model, recovery_limit=3, max_output_tokens=77, temperature=0.5)

        bodies = [one.body for one in model.requests]
    assert "completed" == ended.status
    assert {(77, 0.5)} == {(body["max_tokens"], body["temperature"]) for body in bodies}
    assert {3} == {fact.limit for fact in ended.of(facts.AllowanceReserved)}


def test_rec18_the_deadline_of_a_workflow_ends_its_run_with_its_own_reason(stage: Stage) -> None:
    with ScriptedModel([LOOK, {**GOOD, "delay_ms": 20_000}]) as model:
        ended = stage.by_run(model, tools=[1], deadline="4s")

        assert 2 == len(model.requests)
    assert ("failed", "deadline_exceeded") == (ended.status, ended.code)
    assert 0 == ended.recovery.used


# --- Before anything is sent ---------------------------------------------------------------------

NESTED: dict[str, Any] = {"type": "object"}
for _ in range(101):
    NESTED = {"type": "object", "properties": {"a": NESTED}}

INVALID_SCHEMAS = {
    "no schema at all": {"type": "object", "properties": {"n": {"type": "numbr"}}},
    "a remote reference": {"type": "object", "properties": {"n": {"$ref": "https://a.example/n"}}},
    "more than 1 MiB": {"type": "object", "description": "x" * 1024 * 1024},
    "deeper than 100": NESTED,
    "more than 4,096 nodes": {
        "type": "object",
        "properties": {f"p{n}": {"type": "string"} for n in range(4_200)},
    },
}


@pytest.mark.parametrize("name", INVALID_SCHEMAS)
def test_rec25_an_invalid_schema_is_an_error_before_anything_is_done(
    name: str, entry: Entry
) -> None:
    with ScriptedModel([GOOD]) as model:
        with pytest.raises(WorkflowInvalid, match="schema"):
            entry(model, output=INVALID_SCHEMAS[name])

        assert [] == model.requests


def test_rec25_keywords_of_2020_12_are_kept_to(entry: Entry) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "array", "prefixItems": [{"const": 1}], "items": False}},
        "required": ["n"],
        "unevaluatedProperties": False,
    }
    with ScriptedModel([{"json": {"n": [1, 2]}}, {"json": {"n": [1]}}]) as model:
        ended = entry(model, output=schema)

    assert ({"n": [1]}, ["schema_violation"]) == (ended.output, ended.reasons)


# --- The model -----------------------------------------------------------------------------------


def test_rec26_body_and_header_name_the_model_selected_and_another_is_in_the_log(
    entry: Entry, hosted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROK_API_KEY", "no-key-at-all")
    with ScriptedModel([EMPTY, {**GOOD, "fault": {"kind": "other_model"}}]) as model:
        ended = entry(model, model="grok/grok-build")

        for request in model.requests:
            header = request.headers["x-grok-model-override"]
            assert "grok-build" == request.body["model"] == header
    assert {"grok-build"} == {fact.model for fact in ended.of(facts.ModelRequested)}
    assert "another-model" == ended.of(facts.ModelAnswered)[-1].served_model


def test_rec26_an_unknown_model_is_not_replaced(entry: Entry) -> None:
    unknown = {"fault": {"kind": "status", "status": 404, "code": "model_not_found"}}
    with ScriptedModel([unknown, GOOD]) as model:
        ended = entry(model, model="scripted/no-such")

        assert ["no-such"] == [one.body["model"] for one in model.requests]
    assert ("failed", "not_found") == (ended.status, ended.code)


STRICT = {**SCHEMA, "additionalProperties": False}
"""What native schemas can say exactly."""
BOUNDED = {**STRICT, "properties": {"n": {"type": "integer", "minimum": 1}}}
ROOTED = {**SCHEMA, "properties": {"n": {"type": "integer"}, "more": {"$ref": "#"}}}
"""What would mean another thing inside the hidden tool's arguments."""


@pytest.mark.parametrize(
    ("schema", "mode"), [(STRICT, "native"), (BOUNDED, "tool"), (ROOTED, "prompt")]
)
def test_rec24_auto_takes_the_strongest_mode_that_says_it_exactly(
    schema: dict[str, Any], mode: str, entry: Entry, hosted: None
) -> None:
    with ScriptedModel([BAD, GOOD]) as model:
        ended = entry(model, model="ollama/m", output=schema, mode="auto")

        body = model.requests[0].body
    assert ("completed", {"n": 3}) == (ended.status, ended.output)
    assert [mode, "prompt", mode] == [fact.mode for fact in ended.of(facts.ModelRequested)]
    assert (mode == "native") == ("response_format" in body)
    assert (mode == "tool") == ("tools" in body)
    if mode == "native":
        assert STRICT == body["response_format"]["json_schema"]["schema"]


# --- What the log keeps --------------------------------------------------------------------------


def test_rec22_an_error_keeps_its_metadata_and_nothing_that_the_model_wrote(entry: Entry) -> None:
    partial = {
        "text": "canary-7731 " * 20,
        "finish_reason": "length",
        "usage": {"prompt_tokens": 9, "completion_tokens": 5},
    }
    with ScriptedModel([partial, GOOD]) as model:
        ended = entry(model)

        assert "canary-7731" not in str([one.body for one in model.requests])
    answered = ended.of(facts.ModelAnswered)[0]
    assert ("length", True, 5) == (
        answered.finish_reason,
        answered.terminal,
        answered.usage.completion_tokens,
    )
    assert b"canary-7731" not in msgspec.json.encode(ended.events)


def test_rec22_a_providers_error_is_told_by_its_identifiers_and_not_by_its_message(
    entry: Entry,
) -> None:
    error = {
        "kind": "status",
        "status": 400,
        "code": "unsupported_value",
        "type": "invalid_request_error",
        "param": "temperature",
        "message": "canary-7731 is no temperature; your key is sk-test-0000",
    }
    with ScriptedModel([{"fault": error}]) as model:
        ended = entry(model)

    (failed,) = ended.of(facts.ModelFailed)
    assert "code unsupported_value, type invalid_request_error, param temperature" == (
        failed.cause.named
    )
    told = recoveries.fold(ended.events[0].run, ended.events)
    assert "unsupported_value" in told.why
    written = msgspec.json.encode([ended.events, told])
    assert b"canary" not in written
    assert b"sk-test" not in written


@pytest.mark.parametrize("named", ["sk-test-0000", "bad key sk-or-v1-0000", "x" * 80, "a1" * 20])
def test_rec22_what_may_be_more_than_an_identifier_is_not_told(named: str, entry: Entry) -> None:
    error = {"kind": "status", "status": 400, "code": named, "type": named, "param": named}
    with ScriptedModel([{"fault": error}]) as model:
        ended = entry(model)

    assert ("failed", "bad_request") == (ended.status, ended.code)
    assert named.encode() not in msgspec.json.encode(ended.events)


def test_rec28_the_status_is_the_one_folded_from_the_events(stage: Stage) -> None:
    async def read(run: str) -> str:
        async with AsyncClient(stage.settings) as client:
            return (await client.status(run)).status

    ends = {
        "completed": [GOOD],
        "paused": [EMPTY, EMPTY, EMPTY],
        "failed": [{"text": "", "refusal": "I will not."}],
    }
    for status, turns in ends.items():
        with ScriptedModel(turns) as model:
            run = stage.enqueue(model)
            ended = stage.ended(run)
        assert status == ended.status == ended.state.status == asyncio.run(read(run))
        assert stage.client.status(run) == fold(run, stage.client.events(run))


def test_rec30_a_text_that_asks_to_resume_begins_anew(stage: Stage) -> None:
    def asked(model: ScriptedModel) -> str:
        flow = Workflow("flow", model="scripted/m", api_base=model.url, retry=RETRY)
        flow.agent("agent", prompt="{input}", output=SCHEMA, recovery_limit=0)
        return stage.client.enqueue(flow, "Resume where you stopped.")

    with ScriptedModel([EMPTY, GOOD]) as model:
        paused = asked(model)
        before = stage.ended(paused)
        other = asked(model)
        after = stage.ended(other)

        assert [2, 2] == [len(one.body["messages"]) for one in model.requests]
    assert ("paused", "completed") == (before.status, after.status)
    assert paused != other
    assert stage.client.status(paused) == before.state, "only the log continues a run"
    assert (1, None) == (after.recovery.number, after.recovery.resumed_from)


def test_rec32_a_call_leaves_a_receipt(entry: Entry) -> None:
    refused = {"tool_calls": [{"name": "look", "arguments": {"q": 7}}]}
    with ScriptedModel([LOOK, refused, GOOD]) as model:
        ended = entry(model, tools=[1])

    requested = ended.of(facts.ToolRequested)
    assert [("agent.1.1", "look", "read"), ("agent.2.1", "look", "read")] == [
        (fact.call_id, fact.tool, fact.effect) for fact in requested
    ]
    assert all(fact.arguments.digest for fact in requested)
    assert ["agent.1.1", "agent.2.1"] == [fact.call_id for fact in ended.of(facts.ToolStarted)]
    (succeeded,) = ended.of(facts.ToolSucceeded)
    (failed,) = ended.of(facts.ToolFailed)
    assert ("agent.1.1", True) == (succeeded.call_id, bool(succeeded.result.digest))
    assert ("agent.2.1", "invalid_arguments") == (failed.call_id, failed.code)
    calls = ended.state.invocations["agent"].calls
    assert ["succeeded", "failed"] == [call.status for call in calls.values()]


# --- A model that goes round ---------------------------------------------------------------------


def test_rec2_a_model_that_only_guesses_tools_comes_to_an_end(entry: Entry) -> None:
    guess = {"tool_calls": [{"name": "guess", "arguments": {}}], "times": "always"}
    with ScriptedModel([guess]) as model:
        ended = entry(model, tools=[1])

        assert 3 == len(model.requests)
        for request in model.requests[1:]:  # every call is paired with its result
            said = [c["id"] for m in request.body["messages"] for c in m.get("tool_calls", ())]
            told = [m["tool_call_id"] for m in request.body["messages"] if m["role"] == "tool"]
            assert said == told
    assert ("paused", "exhausted", "wrong_envelope") == (ended.status, ended.reason, ended.code)


# --- For operators -------------------------------------------------------------------------------

OUTCOMES: dict[str, tuple[list[Any], str]] = {
    "completed": ([GOOD], ""),
    "paused": ([{**GOOD, "finish_reason": "length", "times": "always"}], "resume"),
    "failed": ([{"fault": {"kind": "status", "status": 401}}], "provider's key"),
}


@pytest.mark.parametrize("status", OUTCOMES)
def test_rec8_rec9_an_operator_is_told_what_happened_what_it_cost_and_what_to_do(
    status: str, entry: Entry
) -> None:
    turns, advice = OUTCOMES[status]
    with ScriptedModel(turns) as model:
        ended = entry(model)
        sent = len(model.requests)

    run = ended.events[0].run
    shown, traced = recoveries.fold(run, ended.events), traces.fold(run, ended.events)
    for name, view in (("recovery", shown), ("trace", traced)):
        jsonschema.validate(
            msgspec.json.decode(msgspec.json.encode(view)), json.loads(published_text(name))
        )
        assert advice in " ".join(view.advice)
        assert (status == "completed") == (not view.advice) == (not view.why)
        assert sent == sum(used.requests for used in view.usage.values())
    assert [status] == [one.status for one in shown.invocations]


def test_rec21_what_an_unanswered_request_cost_is_unknown(stage: Stage) -> None:
    endless = {"text": "words " * 2_000, "chunks": 5, "chunk_delay_ms": 50}
    with ScriptedModel([endless]) as model:
        run = stage.enqueue(model)
        while not model.requests:
            stage.client.store.follow(run, stage.client.status(run).version, 100)
        stage.client.cancel(run)
        ended = stage.ended(run)

    (used,) = recoveries.fold(run, ended.events).usage.values()
    assert (1, 1) == (used.requests, used.unknown)


def test_rec29_a_failed_call_carries_its_status_and_its_account(stage: Stage) -> None:
    with ScriptedModel([{"fault": {"kind": "status", "status": 403}}]) as model:
        options = stage.call_options(model, {})
        with pytest.raises(InvocationFailed) as failed:
            mulligan.invoke(PROMPT, **options)

    assert ("failed", "forbidden", 403) == (
        failed.value.status,
        failed.value.code,
        failed.value.http_status,
    )
    assert 1 == failed.value.invocation.recovery.requests
