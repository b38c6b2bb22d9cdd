"""
`mulligan run`: a workflow of three nodes with a condition, `for_each`, a tool and a subagent, over
HTTP; what the model's server received is what the log says was sent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mulligan.commands.published import published_text
from mulligan.events.facts import ModelRequested
from mulligan.events.payload import canonical, digest_of
from mulligan.projections.history import problems
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

INPUT = ("--input", '{"topic": "tea"}')


def sent(desk: Any, run: str) -> dict[str, list[str]]:
    """By node, the digests of the requests that the log says were sent, in order."""
    found = defaultdict(list)
    for event in desk.client.events(run):
        if isinstance(event.data, ModelRequested):
            found[event.node].append(event.data.digest)
    return found


def received(desk: Any) -> dict[str, list[str]]:
    """By node, the digests of the bodies that the server received, in order."""
    found = defaultdict(list)
    for request in desk.model.requests:
        found[request.headers["x-mulligan-node"]].append(digest_of(canonical(request.body)))
    return found


@pytest.mark.parametrize(
    ("model", "key"),
    [("scripted/any", {}), ("openai/any", {"OPENAI_API_KEY": "no-key-at-all"})],
    ids=["scripted", "litellm"],
)
def test_a_run_ends_with_its_output_and_what_was_sent_is_in_the_log(
    desk: Any, model: str, key: dict[str, str]
) -> None:
    ended = desk.mulligan(
        "run", "research.yaml", *INPUT, "--run-id", "one", "--model", model, **key
    )

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == "green tea black tea", "only the output is on stdout"
    assert desk.searches() == ["tea"]
    assert len(desk.model.requests) == 6
    assert {node: len(digests) for node, digests in received(desk).items()} == {
        "collect": 4,
        "part[0]": 1,
        "part[1]": 1,
    }
    assert received(desk) == sent(desk, "one")
    assert {request.body["model"] for request in desk.model.requests} == {"any"}, "REC-26"
    assert problems(desk.client.events("one")) == []
    assert "RunCompleted" in ended.stderr
    assert "no-key-at-all" not in ended.stderr


def test_for_programs_the_whole_run_is_one_line_of_json(desk: Any) -> None:
    ended = desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one", "--json")

    shown = json.loads(ended.stdout)
    assert ended.returncode == 0
    assert shown["status"] == "completed"
    assert shown["output"] == "green tea black tea"
    assert shown["nodes"]["part[1]"]["status"] == "completed"


def test_the_chat_of_a_run_is_what_its_models_were_told_and_said(desk: Any) -> None:
    desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one")

    chat = json.loads(desk.mulligan("chat", "one", "--json").stdout)

    jsonschema.validate(chat, json.loads(published_text("chat")))
    prompts = [entry["text"] for entry in chat["entries"] if entry["kind"] == "prompt"]
    told = {str(m.get("content")) for one in desk.model.requests for m in one.body["messages"]}
    assert prompts
    assert set(prompts) <= told, "word for word what was sent"
    calls = [entry["call"] for entry in chat["entries"] if entry["kind"] == "call"]
    assert ("search", "succeeded") in {(call["name"], call["status"]) for call in calls}
    assert chat["entries"][-1]["text"] == "green tea black tea"

    shown = desk.mulligan("chat", "one")
    assert shown.returncode == 0, shown.stderr
    assert "search(" in shown.stdout
    assert shown.stdout.rstrip().endswith("green tea black tea")


def test_the_same_run_id_and_input_is_the_same_run(desk: Any) -> None:
    first = desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one")
    again = desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one")

    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert len(desk.model.requests) == 6, "nothing was asked a second time"


def test_a_false_condition_skips_and_a_failing_function_fails_the_run(desk: Any) -> None:
    """Exit code 1, the cause in words; the node that was skipped asked nothing."""
    desk.model.play({"turns": desk.script(items=("green",))})

    ended = desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one")

    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "nothing to join" in ended.stderr
    assert desk.client.status("one").nodes["part"].status == "skipped"
    assert len(desk.model.requests) == 4


def test_a_run_that_needs_a_person_pauses(desk: Any) -> None:
    """Exit code 3, why, and what to do."""
    desk.model.play({"turns": [{"text": "I would rather not."}], "on_exhausted": "repeat_last"})

    ended = desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one")

    assert ended.returncode == 3
    assert ended.stdout == ""
    assert "one is paused: exhausted" in ended.stderr
    assert "mulligan resume one" in ended.stderr


def test_a_write_of_unknown_outcome_is_named_with_the_command_that_settles_it(desk: Any) -> None:
    tools = desk.folder / "my_tools.py"
    body = tools.read_text().replace('    "Search."', "    import os; os.kill(os.getpid(), 9)")
    tools.write_text(body)
    ended = desk.mulligan("run", "research.yaml", *INPUT, "--run-id", "one")

    assert ended.returncode == 3, ended.stderr
    assert "search (collect.1.1) may or may not have taken effect" in ended.stderr
    assert "mulligan reconcile one CALL succeeded|failed|retry" in ended.stderr
    assert "(collect.1.1)" in desk.mulligan("status", "one").stdout


def test_a_run_that_somebody_cancels_ends_with_4(desk: Any) -> None:
    desk.model.play({"turns": [{"json": {}, "fault": {"kind": "stall", "at_byte": 0}}]})
    running = subprocess.Popen(
        [sys.executable, "-m", "mulligan.cli", "run", "research.yaml", *INPUT, "--run-id", "one"],
        env=os.environ | desk.environment,
        cwd=desk.folder,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        until(lambda: desk.model.requests, 30.0)

        cancelled = desk.mulligan("cancel", "one")

        assert cancelled.returncode == 0
        assert running.wait(20) == 4
        assert len(desk.model.requests) == 1
        until(lambda: desk.model.requests[0].outcome == "disconnected")
    finally:
        running.kill()
        running.communicate()


def test_ctrl_c_says_how_the_run_goes_on_and_a_second_one_does_not_wait(
    desk: Any, tmp_path: Path
) -> None:
    desk.model.play({"turns": [{"json": {"items": []}, "delay_ms": 60_000}]})
    told = tmp_path / "told.txt"
    with told.open("w") as err:
        run = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "mulligan.cli",
                "run",
                "research.yaml",
                *INPUT,
                "--run-id",
                "one",
            ],
            cwd=desk.folder,
            env={**os.environ, **desk.environment},
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
    until(lambda: desk.model.requests, 30.0, told.read_text)

    run.send_signal(signal.SIGINT)
    until(lambda: "goes on with one" in told.read_text(), 10.0, told.read_text)
    run.send_signal(signal.SIGINT)

    assert run.wait(10) == 130
    assert told.read_text().endswith("mulligan: interrupted\n")
    assert "Traceback" not in told.read_text()
    assert desk.client.status("one").status == "running"
