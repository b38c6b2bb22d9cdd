"""
Public bug reports about what happens around a model's responses (tests/data/README.md), each played
over HTTP through every entry point. Those about the wire alone are in `test_wire_cases.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.events import facts
from mulligan.projections import usage
from mulligan.providers.litellm import import_litellm
from mulligan.testing.recovery_cells import EMPTY, GOOD, LOOK
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.stage import Ended, Entry, Stage

pytestmark = pytest.mark.server

DATA = Path(__file__).parents[1] / "data" / "recovery_cases.jsonl"
CASES = {
    case["id"]: case for case in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
}
CUT = {**GOOD, "finish_reason": "length"}
BAD = {"json": {"n": "three"}}
KEY = "sk-test-0000"

Case = dict[str, Any]
Played = Callable[[Case, Entry, Stage], None]
PLAYED: dict[str, Played] = {}
ELSEWHERE = {
    "case-114": "test_rec27_a_tool_that_runs_is_awaited_and_its_result_kept",
    "case-115": "test_rec27_a_late_answer_of_a_cancelled_run_is_dropped",
    "case-116": "test_rec27_a_tool_that_runs_is_awaited_and_its_result_kept",
}
"""Reports about cancellation, by the test of `test_cancellation.py` that plays them."""


def case(*ids: str) -> Callable[[Played], Played]:
    """Registers what plays the reports of these ids."""

    def register(played: Played) -> Played:
        PLAYED.update(dict.fromkeys(ids, played))
        return played

    return register


def status(code: int, /, **more: Any) -> dict[str, Any]:
    return {"fault": {"kind": "status", "status": code, **more}}


def pairs(model: ScriptedModel) -> list[tuple[list[str], list[str]]]:
    """By request, the ids of the calls in its conversation, and of the results."""
    conversations = [one.body["messages"] for one in model.requests]
    return [
        (
            [call["id"] for message in messages for call in message.get("tool_calls", ())],
            [message["tool_call_id"] for message in messages if message["role"] == "tool"],
        )
        for messages in conversations
    ]


@pytest.mark.parametrize("name", sorted(CASES.keys() - ELSEWHERE.keys()))
def test_a_report_is_played(
    name: str, entry: Entry, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    stage.forget()
    import_litellm()

    PLAYED[name](CASES[name], entry, stage)


def test_every_report_is_played_somewhere() -> None:
    beside = Path(__file__).with_name("test_cancellation.py").read_text(encoding="utf-8")
    tests = set(re.findall(r"^def (test_\w+)", beside, re.MULTILINE))

    assert set(CASES) == set(PLAYED) | set(ELSEWHERE)
    assert set(ELSEWHERE.values()) <= tests


@case("case-025")
def _cut_is_told_as_cut(report: Case, entry: Entry, stage: Stage) -> None:
    with ScriptedModel([CUT]) as model:
        ended = entry(model, recovery_limit=0)

    assert ("paused", "length") == (ended.status, ended.code)


@case("case-106", "case-107", "case-108", "case-135")
def _no_hidden_retries(report: Case, entry: Entry, stage: Stage) -> None:
    most = report["expect"]["max_requests"]
    with ScriptedModel([status(503) | {"times": "always"}]) as model:
        entry(model, model="openai/m", recovery_limit=most - 1)

        assert most == len(model.requests)


@case("case-110")
def _one_budget(report: Case, entry: Entry, stage: Stage) -> None:
    with ScriptedModel([CUT, BAD, EMPTY, GOOD]) as model:
        ended = entry(model, recovery_limit=2)

        assert 3 + 1 == len(model.requests), "one by the overseer, who costs no allowance"
    assert ("paused", 2) == (ended.status, ended.recovery.used)


@case("case-111")
def _caps_stay_what_they_are(report: Case, entry: Entry, stage: Stage) -> None:
    """
    REC-10 decides against the report's wish: a limit that the user set is not lowered behind their
    back. What the failed attempt cost is told.
    """
    spent = {"prompt_tokens": 1, "completion_tokens": report["input"]["events"][0]["output_tokens"]}
    budget = report["input"]["events"][1]["budget"]
    with ScriptedModel([{**EMPTY, "usage": spent}, {**GOOD, "usage": None}]) as model:
        ended = entry(model, max_output_tokens=budget)

        assert [budget, budget] == [one.body["max_tokens"] for one in model.requests]
    (used,) = usage.fold("run", ended.events).models.values()
    assert (600, 1) == (used.completion_tokens, used.unknown)


@case("case-112")
def _an_impossible_call_comes_to_an_end(report: Case, entry: Entry, stage: Stage) -> None:
    same = {"tool_calls": [{"name": "look", "arguments": report["input"]["events"][0]["args"]}]}
    with ScriptedModel([same | {"times": "always"}]) as model:
        ended = entry(model, tools=[1], recovery_limit=1)

        assert 2 == len(model.requests)
    assert ("paused", "exhausted") == (ended.status, ended.reason)


@case("case-122")
def _usage_counts_every_try(report: Case, entry: Entry, stage: Stage) -> None:
    first, second = (one["tokens"] for one in report["input"]["events"])
    turns = [
        {**turn, "usage": {"prompt_tokens": tokens, "completion_tokens": 0}}
        for turn, tokens in ((BAD, first), (GOOD, second))
    ]
    with ScriptedModel(turns) as model:
        ended = entry(model)

    (used,) = usage.fold("run", ended.events).models.values()
    total = report["expect"]["usage"]["total_tokens"]
    assert total == used.prompt_tokens + used.completion_tokens


@case("case-124", "case-126")
def _no_key_is_told(report: Case, entry: Entry, stage: Stage) -> None:
    (secret,) = report["expect"]["must_not_contain"]
    told = f"bad API key: {secret}"
    with ScriptedModel([status(401, message=told, code=secret, type=KEY)]) as model:
        ended = entry(model, model="openai/m")

        assert [KEY not in str(one.headers) for one in model.requests] == [True]
    assert ("failed", "unauthorized") == (ended.status, ended.code)
    written = msgspec.json.encode(ended.events) + str(ended.events).encode()
    assert secret.encode() not in written
    assert KEY.encode() not in written


def _looked_once(stage: Stage, ended: Ended) -> None:
    assert ["tea"] == stage.looked
    assert 1 == len(ended.of(facts.ToolStarted))


@case("case-128")
def _a_later_error_repeats_no_tool(report: Case, entry: Entry, stage: Stage) -> None:
    with ScriptedModel([LOOK, status(500), GOOD]) as model:
        ended = entry(model, tools=[1])

    assert "completed" == ended.status
    _looked_once(stage, ended)


@case("case-130")
def _a_resume_repeats_no_tool(report: Case, entry: Entry, stage: Stage) -> None:
    """Only a run can be resumed; a call that is paused is over."""
    with ScriptedModel([LOOK, EMPTY, GOOD]) as model:
        if entry != stage.by_run:
            _looked_once(stage, entry(model, tools=[1], recovery_limit=0))
            return
        run = stage.enqueue(model, tools=[1], recovery_limit=0)
        assert "paused" == stage.ended(run).status
        stage.client.resume(run)
        list(stage.client.events(run, follow=True))
        ended = stage.ended(run)

    assert "completed" == ended.status
    _looked_once(stage, ended)


@case("case-131")
def _a_final_error_repeats_nothing(report: Case, entry: Entry, stage: Stage) -> None:
    with ScriptedModel([LOOK, status(400), GOOD]) as model:
        ended = entry(model, tools=[1])

        assert 2 == len(model.requests)
    assert ("failed", "bad_request") == (ended.status, ended.code)
    _looked_once(stage, ended)


@case("case-132")
def _refused_arguments_are_data_for_the_model(report: Case, entry: Entry, stage: Stage) -> None:
    arguments = report["input"]["events"][0]["args"]
    with ScriptedModel(
        [{"tool_calls": [{"name": "look", "arguments": arguments}]}, LOOK, GOOD]
    ) as model:
        ended = entry(model, tools=[1])

        told = [m for m in model.requests[1].body["messages"] if m["role"] == "tool"]
    assert ["invalid_arguments"] == [json.loads(one["content"])["code"] for one in told]
    assert "completed" == ended.status
    assert ["tea"] == stage.looked
    assert 2 == len(ended.of(facts.ToolStarted)), "each call once"


@case("case-140")
def _every_call_shown_has_its_result(report: Case, entry: Entry, stage: Stage) -> None:
    arguments = report["input"]["events"][0]["assistant"]["tool_calls"][0]["args"]
    broken = {"tool_calls": [{"name": "look", "arguments": arguments}]}
    with ScriptedModel([LOOK, broken, GOOD]) as model:
        ended = entry(model, tools=[1])

        for calls, results in pairs(model):
            assert calls == results
    assert ("completed", ["invalid_json"]) == (ended.status, ended.reasons)
