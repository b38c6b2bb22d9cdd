"""
What the soak's runs do, and what their models say: every effect class, recovery, the overseer, and
a repair loop.
"""

from __future__ import annotations

from typing import Any

from mulligan.testing.misread_invoice import NUMBER, RECORD

FOUND = {
    "type": "object",
    "properties": {"found": {"type": "integer"}},
    "required": ["found"],
    "additionalProperties": False,
}

HANDS: dict[str, Any] = {
    "name": "hands",
    "settings": {"model": "scripted/any", "recovery_limit": 2},
    "nodes": [
        {
            "id": "hand",
            "kind": "agent",
            "prompt": "Do what has to be done.",
            "tools": [f"soak_steps:{name}" for name in ("look", "put", "send", "mail")],
            "output_schema": FOUND,
        },
        {
            "id": "part",
            "kind": "function",
            "call": "soak_steps:part",
            "needs": ["hand"],
            "for_each": "input.items",
        },
        {
            "id": "publish",
            "kind": "function",
            "call": "soak_steps:publish",
            "effect": "write",
            "needs": ["part"],
        },
        {
            "id": "total",
            "kind": "function",
            "call": "soak_steps:total",
            "needs": ["publish", "hand"],
        },
    ],
}
"""Tools of every effect class, and functions; its model fails three times in three ways."""

SPENT: dict[str, Any] = {
    "name": "spent",
    "settings": {"model": "scripted/any", "recovery_limit": 2},
    "nodes": [
        {
            "id": "spent",
            "kind": "agent",
            "prompt": "Send it.",
            "tools": ["soak_steps:mail"],
            "output_schema": FOUND,
        }
    ],
}
"""An agent that uses up its allowance after a write, and is done once it has another."""

COVERED = ("look", "put", "send", "mail", "part", "publish", "total")
"""The tools and functions that note every effect they have."""


def _calls(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": {}} for name in names]


def _hand(rounds: int, turn: dict[str, Any], attempt: int | None = None) -> dict[str, Any]:
    match = {"node": "hand", "rounds": rounds} | ({"attempt": attempt} if attempt else {})
    return {"match": match, "delay_ms": 30, **turn}


_TURNS: list[dict[str, Any]] = [
    _hand(0, {"fault": {"kind": "status", "status": 503}}, attempt=1),
    _hand(0, {"tool_calls": _calls("look", "put")}),
    _hand(1, {"tool_calls": _calls("send", "mail")}),
    _hand(2, {"json": {"found": 1}, "fault": {"kind": "eof"}}, attempt=2),
    _hand(2, {"json": {"found": "two"}}),
    {
        "match": {"node": "hand", "overseer": True},
        "delay_ms": 30,
        "json": {"repaired_arguments": {"output": {"found": 2}}},
    },
    {"match": {"node": "spent", "rounds": 0}, "tool_calls": _calls("mail")},
    *({"match": {"node": "spent", "rounds": 1, "attempt": n}, "text": ""} for n in (1, 2, 3)),
    {"match": {"node": "spent", "rounds": 1}, "json": {"found": 3}},
    {
        "match": {"node": "extract[0]"},
        "json": {"records": [RECORD | {"number": "A-71", "total": 1}]},
    },
    {
        "match": {"invocation": "repair.1.1"},
        "json": {"fields": [{"path": NUMBER, "value": "A-1"}]},
    },
    {"match": {"invocation": "repair.2.1"}, "json": {"fields": [{"path": NUMBER, "value": "B-1"}]}},
    {"match": {"invocation": "repair.3.1"}, "json": {"record": RECORD}},
]
SCRIPT = {"turns": [{"times": "always", **turn} for turn in _TURNS]}
