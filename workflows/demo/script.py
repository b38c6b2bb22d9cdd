"""
What the demo's model says: two searches' worth of work, told apart by node and tool rounds, so that
a request that a lost worker had sent may be asked again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mulligan.workflows.demo.steps import FACTS

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
            _says("check[0]", 0, {"fact": FACTS[0], "holds": True}),
            _calls("check[1]", 0, "call_subagent", doubt, invocation="check[1]"),
            _says("check[1]", 0, {"objection": "It is another plant."}, invocation="check[1].1.1"),
            _says("check[1]", 1, {"fact": FACTS[1], "holds": False}),
        ]
    }


def _calls(node: str, rounds: int, name: str, arguments: Any, **match: Any) -> dict[str, Any]:
    return _turn(node, rounds, match) | {"tool_calls": [{"name": name, "arguments": arguments}]}


def _says(node: str, rounds: int, output: Any, **match: Any) -> dict[str, Any]:
    return _turn(node, rounds, match) | {"json": output}


def _turn(node: str, rounds: int, match: dict[str, Any]) -> dict[str, Any]:
    where = {"node": node, "rounds": rounds, **match}
    return {"match": where, "times": "always", "delay_ms": DELAY_MS}
