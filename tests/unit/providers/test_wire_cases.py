"""
Public bug reports about streams, as far as the wire decides them (tests/data/README.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mulligan.events.facts import Usage
from mulligan.providers.classify import judge
from mulligan.providers.port import Answer, Failure
from mulligan.providers.wire import WireReader

CASES = Path(__file__).parents[2] / "data" / "wire_cases.jsonl"


def cases(channel: str) -> list[Any]:
    lines = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    chosen = [case for case in lines if case["input"]["channel"] == channel]
    return [pytest.param(case, id=case["id"]) for case in chosen]


def events_of(step: dict[str, Any]) -> str:
    """A step of a case as the events that a server would send."""
    if "done" in step:
        return "data: [DONE]\n\n"
    if "eof" in step:
        return ""
    if "event" in step and "text" not in step:
        return f"event: {step['event']}\ndata: {json.dumps(step)}\n\n"
    if "error" in step or "usage" in step:
        return f"data: {json.dumps(step)}\n\n"
    delta: dict[str, Any] = {key: step[src] for key, src in (("content", "text"),) if src in step}
    if "args" in step:
        function = {"name": step.get("name") or step.get("tool"), "arguments": step["args"]}
        fragment = {"index": step.get("index", 0), "id": step.get("id"), "function": function}
        delta["tool_calls"] = [fragment]
    finish = step.get("finish_reason") or step.get("stop_reason")
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


def outcome(case: dict[str, Any]) -> Answer | Failure:
    reader = WireReader("text/event-stream")
    for step in case["input"]["chunks"]:
        reader.feed(events_of(step).encode())
    return judge(200, {"content-type": "text/event-stream"}, reader.end(), now=0)


def calls_of(answer: Answer) -> list[dict[str, Any]]:
    return [{"name": c.name, "arguments": json.loads(c.arguments)} for c in answer.calls]


@pytest.mark.parametrize("case", cases("stream"))
def test_a_stream_is_taken_for_what_it_was(case: dict[str, Any]) -> None:
    result, expect = outcome(case), case["expect"]

    match case["id"]:
        case "case-034":
            # REC-12 decides against the report: calls without a finish reason are not a success,
            # `[DONE]` or not. What was received is all there for whoever judges it.
            assert isinstance(result, Answer)
            assert not result.terminal
            assert expect["value"] == json.loads(result.calls[0].arguments)
        case "case-054" | "case-057":
            assert isinstance(result, Answer)
            assert expect["value"] == calls_of(result)
        case "case-119":
            assert isinstance(result, Answer)
            assert (True, None) == (result.terminal, result.usage)
        case "case-050":
            # The arguments stay as they came, for the completion protocol to refuse.
            assert isinstance(result, Answer)
            assert "<function_calls>" in result.calls[0].arguments
        case "case-092":
            assert isinstance(result, Failure)
            assert (True, 502) == (result.transient, result.cause.status)
        case "case-093":
            assert isinstance(result, Failure)
            assert ("malformed_call", False, 400) == (
                result.cause.kind,
                result.transient,
                result.cause.status,
            )
        case "case-094":
            assert isinstance(result, Answer)
            assert ("end_turn", "", ()) == (result.finish_reason, result.text, result.calls)
        case _:
            assert isinstance(result, Answer)
            assert (False, None) == (result.terminal, result.finish_reason)
            if "usage" in expect:
                assert Usage(prompt_tokens=0, completion_tokens=0) == result.usage


@pytest.mark.parametrize("case", cases("events"))
def test_events_that_the_wire_decides(case: dict[str, Any]) -> None:
    """Routing (REC-26), reasoning (REC-18) and refusals, as the provider worded them."""
    reader = WireReader("text/event-stream")
    for event in case["input"]["events"]:
        for data in _wire(event):
            reader.feed(f"data: {json.dumps(data)}\n\n".encode())
    result = judge(200, {"content-type": "text/event-stream"}, reader.end(), now=0)

    match case["id"]:
        case "case-096":
            assert isinstance(result, Answer)
            assert case["expect"]["value"] == json.loads(result.text)
        case "case-098" | "case-101":
            assert isinstance(result, Answer)
            assert case["input"]["events"][1]["response"]["model"] == result.served_model
        case "case-099":
            assert isinstance(result, Failure)
            assert ("not_found", False) == (result.cause.kind, result.transient)
        case "case-136":
            assert isinstance(result, Answer)
            assert result.refused
        case other:
            pytest.fail(f"no expectation for {other}")


def _wire(event: dict[str, Any]) -> list[dict[str, Any]]:
    """What a server sends for an event; a request is not its to send."""
    if "error" in event:
        return [event]
    if "response" in event:
        response = event["response"]
        choice = {"index": 0, "delta": {"content": response["text"]}, "finish_reason": "stop"}
        return [{"model": response["model"], "choices": [choice]}]
    delta = {"content": event.get("text"), "refusal": event.get("refusal")}
    if event.get("event") == "reasoning_delta":
        delta["reasoning_content"] = "hm"
    finish = event.get("finish") or event.get("reason")
    known = "request" not in event
    return [{"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}] if known else []
