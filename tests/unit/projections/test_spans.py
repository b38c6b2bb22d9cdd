"""Spans folded from histories: what they are called, what they are part of, what is not in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mulligan.decisions import people
from mulligan.events import facts
from mulligan.events.codec import decode
from mulligan.events.envelope import Envelope
from mulligan.events.facts import (
    Cause,
    Fact,
    ModelAnswered,
    ModelFailed,
    ModelInterrupted,
    ModelRequested,
    NodePaused,
    NodeReady,
    NodeStarted,
    OutputRepairFailed,
    OutputRepairRequested,
    RunCancelled,
    RunCompleted,
    ToolOutcomeUnknown,
    ToolRequested,
    ToolStarted,
    ToolSucceeded,
    Usage,
)
from mulligan.events.payload import Payload
from mulligan.projections.span_fold import evolve
from mulligan.projections.spans import RUN, RunSpans, Span, span_id, trace_id
from mulligan.schemas.plan import AgentPlan, NodePlan
from mulligan.testing.given import Given, plan_of

HISTORIES = Path(__file__).parents[2] / "histories"
AGENT = AgentPlan(prompt="", output_schema={}, recovery_limit=2, model="openai/small", tools=("t",))
CALLED = ToolRequested(
    call_id="a.1.1",
    invocation="a",
    tool="search",
    provider_id="call_1",
    arguments=Payload.of({"q": "a secret"}),
    effect="read",
    key="k",
)


def asked(number: int = 1, *, of: str = "a") -> ModelRequested:
    return ModelRequested(
        request_id=f"{of}#{number}",
        invocation=of,
        turn=1,
        mode="tool",
        model="small",
        digest="",
        sent={"max_tokens": 100, "temperature": 0.5, "stream": True},
    )


def given(*history: Fact) -> Given:
    """A run whose agent `a` has begun its first attempt, and what happened to it then."""
    return then(Given(plan_of(NodePlan(id="a", work=AGENT))), NodeReady(), NodeStarted(), *history)


def then(given: Given, *history: Fact) -> Given:
    for fact in history:
        given.happened(fact, node="a", attempt=1)
    return given


def ended(given: Given) -> dict[str, Span]:
    """The spans that have ended, by name: the last of each."""
    return {span.name: span for span in all_ended(given.log)}


def all_ended(events: list[Envelope]) -> list[Span]:
    spans = RunSpans(run=events[0].run)
    return [span for event in events for span in evolve(spans, event)]


def test_a_request_is_a_chat_of_its_agent() -> None:
    answered = ModelAnswered(
        request_id="a#1",
        invocation="a",
        finish_reason="length",
        terminal=True,
        usage=Usage(prompt_tokens=7, completion_tokens=3),
        served_model="small-2",
    )

    span = ended(given(asked(), answered))["chat small"]

    assert span.client
    assert span.parent == "node a"
    assert span.error is None
    assert span.attributes == {
        "mulligan.run": "run",
        "mulligan.node": "a",
        "mulligan.attempt": 1,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "small-2",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "mulligan.request_id": "a#1",
        "mulligan.turn": 1,
        "mulligan.output_mode": "tool",
        "mulligan.terminal": True,
    }


def test_a_failed_request_tells_the_kind_and_the_status_but_no_message() -> None:
    cause = Cause(kind="rate_limited", message="a message", status=429)
    failed = ModelFailed(request_id="a#1", invocation="a", cause=cause)

    span = ended(given(asked(), failed))["chat small"]

    assert (span.error, span.attributes["error.type"]) == ("rate_limited", "rate_limited")
    assert span.attributes["http.response.status_code"] == 429
    assert "a message" not in repr(span)


def test_a_request_whose_worker_was_lost_ends_when_that_is_noticed() -> None:
    history = given(asked()).at(5_000)
    lost = ModelInterrupted(request_id="a#1", invocation="a")

    span = ended(then(history, lost))["chat small"]

    assert (span.start_ms, span.end_ms, span.error) == (1_000, 5_000, "worker_lost")


def test_each_execution_of_a_tool_is_a_span_and_a_further_one_ends_the_lost_one() -> None:
    first, second = (ToolStarted(call_id="a.1.1", execution=number) for number in (1, 2))
    result = ToolSucceeded(call_id="a.1.1", result=Payload.of("a secret"))

    history = given(CALLED, first, second, result)

    lost, done = all_ended(history.log)
    assert (lost.key, lost.error) == ("tool a.1.1 1", "worker_lost")
    assert (done.key, done.error) == ("tool a.1.1 2", None)
    assert done.name == "execute_tool search"
    assert done.attributes["gen_ai.tool.call.id"] == "a.1.1"
    assert "a secret" not in repr(done)


def test_an_effect_of_unknown_outcome_is_an_error() -> None:
    started = ToolStarted(call_id="a.1.1", execution=1)
    unknown = ToolOutcomeUnknown(call_id="a.1.1", evidence="")

    history = given(CALLED, started, unknown)

    assert ended(history)["execute_tool search"].error == "outcome_unknown"


def test_the_overseer_is_an_agent_of_its_own_within_the_one_that_it_helps() -> None:
    wanted = OutputRepairRequested(invocation="a", kind="invalid_json", digest="", bytes=9)
    of = "a.overseer.1"
    answered = ModelAnswered(
        request_id=f"{of}#1", invocation=of, finish_reason=None, terminal=False
    )
    in_vain = OutputRepairFailed(invocation="a", reason="truncated")

    history = given(wanted, asked(of=of), answered, in_vain)

    request, repair = all_ended(history.log)
    assert (repair.name, repair.parent, repair.error) == (
        "invoke_agent overseer",
        "node a",
        "truncated",
    )
    assert (request.name, request.parent) == ("chat small", repair.key)
    assert request.attributes["gen_ai.provider.name"] == "openai"


def test_what_is_under_way_when_its_run_ends_ends_with_it_the_inner_first() -> None:
    history = given(asked()).happened(RunCancelled())

    spans = all_ended(history.log)

    assert [span.name for span in spans] == ["chat small", "invoke_agent a", "invoke_workflow flow"]
    assert {span.error for span in spans} == {"cancelled"}


def test_a_pause_is_told_within_the_agent_that_waits() -> None:
    paused = NodePaused(reason="awaiting_input", invocation="a", detail="a secret")
    history = then(given().at(3_000), paused)

    span = ended(history.happened(RunCompleted(output=Payload.of(None))))["invoke_agent a"]

    (_, moment) = span.moments
    assert (moment.name, moment.time_ms) == ("mulligan.node_paused", 3_000)
    assert moment.attributes == {"mulligan.reason": "awaiting_input"}


def test_ids_are_the_same_wherever_they_are_made_and_others_for_another_run() -> None:
    trace = trace_id("order-17", 1_796_097_106_684)

    assert f"{trace:032x}" == "081c20545276fa5c9d6f2909844ccf2d"
    assert trace != trace_id("order-17", 1_796_097_106_685)
    assert len({trace, span_id(trace, RUN), span_id(trace, "node a"), span_id(trace + 1, RUN)}) == 4


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_recorded_runs_come_to_whole_traces(path: Path) -> None:
    lines = map(json.loads, path.read_text().splitlines())
    events = [decode("r", one["version"], int(one["t"]), one["d"].encode()) for one in lines]
    spans = RunSpans(run="r")

    told = [span for event in events for span in evolve(spans, event)]

    over = any(
        isinstance(event.data, facts.RunCompleted | facts.RunFailed | facts.RunCancelled)
        for event in events
    )
    assert bool(spans.open) != over
    known = {span.key for span in told} | spans.open.keys()
    assert len({span.key for span in told}) == len(told)
    assert {span.parent for span in told} - {None} <= known
    assert all(span.start_ms <= span.end_ms for span in told)
    requests = [event for event in events if isinstance(event.data, ModelRequested)]
    assert len([span for span in told if span.client]) == len(requests)


def test_a_runs_span_names_its_tenant_if_it_has_one() -> None:
    plan = plan_of(NodePlan(id="a", work=AGENT))
    spans = RunSpans(run="r")
    (event,) = people.request("r", "op", plan, None, tenant="acme").events

    list(evolve(spans, Envelope(id="e", run="r", version=1, time_ms=1, data=event.data)))

    assert spans.open[RUN].attributes["mulligan.tenant"] == "acme"
