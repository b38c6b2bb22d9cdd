"""REC-19 over HTTP: what is too much for one response is worked in parts."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from mulligan.projections.history import problems

pytestmark = pytest.mark.server

FLOW = """\
name: summary
settings:
  model: scripted/any
  recovery_limit: 2
  limits: {context_window: 8000, max_output_tokens: 500}
nodes:
  - id: write
    kind: agent
    prompt: "Summarise {input.text}"
    output_schema: {type: object, properties: {text: {type: string}}, required: [text]}
    decompose: "summary_steps:chapters"
    join: "summary_steps:whole"
  - {id: length, kind: function, needs: [write], call: "summary_steps:length"}
"""
STEPS = """\
def chapters(prompt, cause, input):
    with open("splits.txt", "a") as file:
        print(cause["kind"], prompt, file=file)
    return [f"Summarise {one}" for one in input["text"].split(" | ")]


def whole(parts):
    return {"text": " ".join(part["text"] for part in parts)}


def length(write):
    return len(write["text"])
"""
INPUT = ("--input", '{"text": "one | two"}', "--run-id", "run")


def turn(invocation: str, text: str, **more: Any) -> dict[str, Any]:
    return {"match": {"invocation": invocation}, "times": "always", "json": {"text": text}, **more}


CUT = turn("write", "canary", finish_reason="length")


@pytest.fixture
def summary(desk: Any) -> Any:
    desk.flow.write_text(FLOW)
    (desk.folder / "summary_steps.py").write_text(STEPS)
    return desk


def test_rec19_a_node_at_capacity_is_worked_in_parts(summary: Any) -> None:
    summary.model.play({"turns": [CUT, turn("write.1.1", "uno"), turn("write.1.2", "due")]})

    ended = summary.mulligan("run", "research.yaml", *INPUT)

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == len("uno due")
    asked = sorted(one.headers["x-mulligan-invocation"] for one in summary.model.requests)
    assert asked == ["write", "write", "write.1.1", "write.1.2"]
    assert (summary.folder / "splits.txt").read_text() == "length Summarise one | two\n"
    bodies = [str(one.body) for one in summary.model.requests]
    assert not any("canary" in body for body in bodies)
    assert problems(list(summary.client.events("run"))) == []
    told = summary.mulligan("trace", "run").stdout
    assert "to be split" in told
    assert "part 2" in told
    assert "Summarise two" in summary.mulligan("chat", "run").stdout


def test_rec19_a_part_at_capacity_pauses_and_a_resume_asks_for_that_part_alone(
    summary: Any,
) -> None:
    part = turn("write.1.2", "canary", finish_reason="length")
    summary.model.play({"turns": [CUT, turn("write.1.1", "uno"), part]})
    ended = summary.mulligan("run", "research.yaml", *INPUT)
    assert ended.returncode == 3
    assert "exhausted" in ended.stderr
    assert "write.1.2: the response stopped at its output limit" in ended.stderr

    summary.model.play({"turns": [turn("write.1.2", "due")]})
    before = len(summary.model.requests)
    assert summary.mulligan("resume", "run").returncode == 0
    again = summary.mulligan("run", "research.yaml", *INPUT)

    assert again.returncode == 0, again.stderr
    asked = [one.headers["x-mulligan-invocation"] for one in summary.model.requests[before:]]
    assert asked == ["write.1.2"]
    assert (summary.folder / "splits.txt").read_text().count("\n") == 1


HANGS = """
import threading

def chapters(prompt):
    threading.Event().wait(30)
"""


def test_rec18_rec19_a_step_that_hangs_ends_with_the_time_of_its_agent(summary: Any) -> None:
    steps = summary.folder / "summary_steps.py"
    steps.write_text(STEPS.replace("def chapters", "def no_chapters") + HANGS)
    summary.edit("    decompose", "    timeout: 3s\n    decompose")
    summary.model.play({"turns": [CUT]})

    began_s = time.monotonic()
    ended = summary.mulligan("run", "research.yaml", *INPUT)

    assert ended.returncode == 1, ended.stderr
    assert "deadline_exceeded" in ended.stderr
    assert time.monotonic() - began_s < 25
    assert problems(list(summary.client.events("run"))) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('    join: "summary_steps:whole"\n', "", "needs a join"),
        ('    decompose: "summary_steps:chapters"\n', "", "there is none"),
        ("summary_steps:chapters", "summary_steps:length", "takes 'write'"),
        ("summary_steps:chapters", "summary_steps:nowhere", "nowhere"),
    ],
)
def test_what_can_not_split_or_join_is_refused_before_anything_is_done(
    summary: Any, old: str, new: str, told: str
) -> None:
    summary.edit(old, new)
    refused = summary.mulligan("run", "research.yaml", *INPUT)
    assert refused.returncode == 2
    assert told in refused.stderr
    assert "research.yaml:" in refused.stderr
    assert summary.untouched()
