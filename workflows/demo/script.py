"""
What the demo's model says. It misbehaves: one answer is cut off at its limit, one does not fit its
schema (the agent is asked again), one wraps broken JSON in prose (the text alone tells what it
means), and one names a verdict in words, which the overseer puts into the form asked for.

Turns are told apart by node, attempt and tool rounds, so that a request that a lost worker had sent
may be asked again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mulligan.workflows.demo.steps import FACTS

DRAFT = """\
It is worth noting that tea was drunk in China before it came to Europe.
That it is made of coffee beans is said here and there, but tea comes from another plant.
"""
"""Its second sentence is longer than the demo's gates let pass, its first begins with a phrase."""

MENDED = "Some say that it is made of coffee beans. Tea comes from another plant."

REPORTED = {"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80, "cost": 0.0002}
"""What the model's server says that the editor's request was; what it says is what is counted."""

DELAY_MS = 300
"""A model takes its time; shown live, so does the demo's."""


def script(record: Path) -> dict[str, Any]:
    """The script, whose search writes its calls into the file `record`."""
    search = {"query": "tea", "record": str(record)}
    doubt = {"subagent": "sceptic", "input": {"claim": FACTS[1]}}
    return {
        "turns": [
            _calls("collect", 0, "search", search),
            _says("collect", 1, {"facts": FACTS}),
            _cut_off("check[0]", attempt=1),
            _says("check[0]", 0, {"fact": FACTS[0], "verdict": "it holds"}, attempt=2),
            _repairs("check[0]", {"fact": FACTS[0], "holds": True}),
            _calls("check[1]", 0, "call_subagent", doubt, invocation="check[1]"),
            _says("check[1]", 0, {"objection": 7}, invocation="check[1].1.1", attempt=1),
            _gives_up("check[1]", "check[1].1.1.overseer.1"),
            _says("check[1]", 0, {"objection": "It is another plant."}, invocation="check[1].1.1"),
            _calls("check[1]", 1, "submit_output", _broken({"fact": FACTS[1], "holds": False})),
            _says("write", 0, {"text": DRAFT}),
            _says("polish", 0, {"text": MENDED}) | {"usage": REPORTED},
        ]
    }


def _calls(node: str, rounds: int, name: str, arguments: Any, **match: Any) -> dict[str, Any]:
    return _turn(node, rounds, match) | {"tool_calls": [{"name": name, "arguments": arguments}]}


def _repairs(node: str, output: Any) -> dict[str, Any]:
    """What the overseer makes of a malformed output."""
    return _says(node, 0, {"repaired_arguments": {"output": output}}, overseer=True)


def _gives_up(node: str, overseer: str) -> dict[str, Any]:
    """A malformed output of which the overseer can make nothing."""
    match = {"overseer": True, "invocation": overseer}
    return _turn(node, 0, match) | {"text": "The text holds no objection."}


def _cut_off(node: str, **match: Any) -> dict[str, Any]:
    """Output that was stopped at the model's limit, and would be valid if it were closed."""
    begun = {"name": "submit_output", "arguments": '{"output": {"fact": "Tea", "holds": true'}
    return _turn(node, 0, match) | {"tool_calls": [begun], "finish_reason": "length"}


def _broken(output: dict[str, Any]) -> str:
    """Arguments as models write them on a bad day: prose, a fence, Python's words, a comma more."""
    return f"Here it is:\n```json\n{{'output': {output!r}, 'assistant_message': None,}}\n```"


def _says(node: str, rounds: int, output: Any, **match: Any) -> dict[str, Any]:
    return _turn(node, rounds, match) | {"json": output}


def _turn(node: str, rounds: int, match: dict[str, Any]) -> dict[str, Any]:
    where = {"node": node, "rounds": rounds, **match}
    return {"match": where, "times": "always", "delay_ms": DELAY_MS}
