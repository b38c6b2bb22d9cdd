"""What the overseer's answer is worth: every reason why it is none, and what of it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.completion.evidence import MAX_RESPONSE_BYTES
from mulligan.decisions.overseer_answer import Repaired, Unrepaired, judge
from mulligan.decisions.submission import MAX_CANDIDATE_BYTES
from mulligan.events.facts import Usage
from mulligan.providers.port import Answer, ToolCall
from mulligan.schemas.plan import AgentPlan

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXTS = {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}
GOOD = json.dumps({"repaired_arguments": {"output": {"n": 1}}})
CALL = ToolCall("c", "submit_output", '{"output": {"n": 1}}')


def judged(
    text: str = GOOD,
    *,
    schema: dict[str, Any] = SCHEMA,
    candidate: str = '{"n": "one"}',
    cap: int | None = None,
    strict: bool = False,
    **more: Any,
) -> Repaired | Unrepaired:
    answer = Answer(**{"finish_reason": "stop", "terminal": True, "text": text, **more})
    agent = AgentPlan(prompt="Count.", model="a/b", output_schema=schema, recovery_limit=2)
    return judge(agent, answer, candidate, cap_sent=cap, strict=strict)


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        ("not_completed", {"calls": (CALL,)}),
        ("not_completed", {"refused": True}),
        ("not_completed", {"repetitive": True}),
        ("not_completed", {"terminal": False}),
        ("not_completed", {"finish_reason": "content_filter"}),
        ("truncated", {"finish_reason": "length"}),
        ("truncated", {"cap": 9, "usage": Usage(completion_tokens=9)}),
    ],
    ids=["call", "refusal", "loop", "no end", "filter", "length", "at its cap"],
)
def test_ovr6_a_whole_repair_in_a_turn_that_is_not_complete_does_not_count(
    reason: str, more: dict[str, Any]
) -> None:
    found = judged(**more)

    assert isinstance(found, Unrepaired)
    assert reason == found.reason


def test_ovr6_what_is_said_beside_the_output_is_dropped() -> None:
    arguments = {"output": {"n": 1}, "assistant_message": "I have put it right."}

    found = judged(json.dumps({"repaired_arguments": arguments, "note": "Gladly."}))

    assert isinstance(found, Repaired)
    assert ({"n": 1}, None) == (found.completed.output, found.completed.assistant_message)


@pytest.mark.parametrize(
    ("bytes_", "fits"), [(MAX_CANDIDATE_BYTES, True), (MAX_CANDIDATE_BYTES + 1, False)]
)
@pytest.mark.parametrize("letter", ["a", "é", "🫖"])
def test_ovr7_repaired_arguments_may_be_as_large_as_a_candidate(
    bytes_: int, fits: bool, letter: str
) -> None:
    room, width = bytes_ - len(json.dumps({"t": ""})), len(letter.encode())
    text = letter * (room // width) + "." * (room % width)
    said = json.dumps({"repaired_arguments": {"t": text}}, ensure_ascii=False)

    found = judged(said, schema=TEXTS, candidate=text)

    assert fits == isinstance(found, Repaired)
    assert fits or (isinstance(found, Unrepaired) and found.reason == "oversize")


def test_ovr7_an_answer_beyond_any_response_is_not_even_read() -> None:
    found = judged(GOOD + " " * MAX_RESPONSE_BYTES)

    assert isinstance(found, Unrepaired)
    assert "oversize" == found.reason


@pytest.mark.parametrize(
    ("candidate", "strict", "novel", "counts"),
    [
        ('{"n": "1 or so"}', True, (), True),
        ('{"n": "one"}', False, ("/n",), True),
        ('{"n": "one"}', True, ("/n",), False),
    ],
)
def test_out6_what_is_novel_is_recorded_and_fails_where_the_settings_are_strict(
    candidate: str, strict: bool, novel: tuple[str, ...], counts: bool
) -> None:
    found = judged(candidate=candidate, strict=strict)

    assert (counts, novel) == (isinstance(found, Repaired), found.novel)
    assert counts or (isinstance(found, Unrepaired) and found.reason == "protocol_failed")
