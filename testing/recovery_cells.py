"""
The cells of the recovery matrix: every kind of failure, every place where it can strike, and what a
scripted model says in each.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Place = Literal["first turn", "after a tool", "subagent", "last attempt", "limit 0"]
PLACES: dict[Place, str] = {
    "first turn": "In the first turn of an agent with the default allowance of 2.",
    "after a tool": "In the turn after a tool that completed; in every row it runs once.",
    "subagent": (
        "In the first turn of an agent that another one called. `requests` are those of both; the "
        "other columns are the called agent's. Its caller uses nothing of its own allowance."
    ),
    "last attempt": "In the last attempt that is allowed, after two empty turns.",
    "limit 0": "In the first turn of an agent with `recovery_limit: 0`.",
}
"""Where a failure strikes, and how the page tells of it."""

FAILS_AT: dict[Place, int] = {
    "first turn": 1,
    "after a tool": 2,
    "subagent": 2,
    "last attempt": 3,
    "limit 0": 1,
}
"""Which of a run's requests is the one that fails, counted from 1."""

CALLER, CALLED = "agent", "agent.1.1"
"""The invocations of a cell: the node's, and that of the agent which it calls."""
TIMEOUT = "4s"
"""Of an agent that is not answered in time; what comes before takes much less."""

GOOD: dict[str, Any] = {"json": {"n": 3}}
EMPTY: dict[str, Any] = {"text": ""}
LOOK: dict[str, Any] = {"tool_calls": [{"name": "look", "arguments": {"q": "tea"}}]}
CALL: dict[str, Any] = {
    "tool_calls": [{"name": "call_subagent", "arguments": {"subagent": "helper", "input": 1}}]
}
MIXED: dict[str, Any] = {
    "tool_calls": [
        {"name": "look", "arguments": {"q": "x"}},
        {"name": "submit_output", "arguments": {"output": {"n": 3}}},
    ]
}
ENDLESS: dict[str, Any] = {"text": "words " * 5_000, "chunks": 5, "chunk_delay_ms": 50}
LOOP = {"kind": "loop", "text": "and on " * 20, "times": 50_000}


def _status(status: int, **more: Any) -> dict[str, Any]:
    return {"fault": {"kind": "status", "status": status, **more}}


def _submitted(arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "submit_output", "arguments": arguments}]}


KINDS: dict[str, dict[str, Any]] = {
    "`transport`: status 503": _status(503),
    "`transport`: 429 with Retry-After": _status(429, retry_after=0.05),
    "`transport`: connection reset": {"fault": {"kind": "reset"}},
    "`length`": {**GOOD, "finish_reason": "length"},
    "`length`, relabelled": {**GOOD, "fault": {"kind": "relabel"}},
    "`eof`: nothing came": {"fault": {"kind": "empty"}},
    "`eof`: the stream just ended": {**GOOD, "fault": {"kind": "eof"}},
    "`empty_turn`": EMPTY,
    "`invalid_json`": _submitted("so, {3} or {4}"),
    "`wrong_envelope`": _submitted({"what": 3, "why": 4}),
    "`wrong_envelope`, unknown tool": {"tool_calls": [{"name": "guess", "arguments": {}}]},
    "`schema_violation`": {"json": {"n": "three"}},
    "`schema_violation`, of a tool": {"tool_calls": [{"name": "look", "arguments": {"q": []}}]},
    "`mixed_turn`": MIXED,
    "`repetitive_output`": {"fault": LOOP},
    "refusal": {"text": "", "refusal": "I will not."},
    "401": _status(401),
    "403": _status(403),
    "404": _status(404),
    "429, quota used up": _status(429, quota=True),
    "400": _status(400),
    "deadline": {**GOOD, "delay_ms": 20_000},
    "cancellation": ENDLESS,
}
"""The turn that fails, by the kind of its failure."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A failure at a place, met through an entry point. `model` is the cell's alone."""

    kind: str
    place: Place
    entry: str
    model: str

    @property
    def subject(self) -> str:
        """The invocation that meets the failure."""
        return CALLED if self.place == "subagent" else CALLER

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of the agent that meets the failure."""
        limit = {"recovery_limit": 0} if self.place == "limit 0" else {}
        return {**limit, "timeout": TIMEOUT} if self.kind == "deadline" else limit

    def turns(self) -> list[dict[str, Any]]:
        """What the model says, request by request."""
        failure = KINDS[self.kind]
        match self.place:
            case "first turn" | "limit 0":
                said = [failure, GOOD]
            case "after a tool":
                said = [LOOK, failure, GOOD]
            case "last attempt":
                said = [EMPTY, EMPTY, failure, GOOD]
            case "subagent":
                return [
                    *(self._turn(turn, CALLER) for turn in (CALL, GOOD)),
                    *(self._turn(turn, CALLED) for turn in (failure, GOOD)),
                ]
        return [self._turn(turn, CALLER) for turn in said]

    def _turn(self, said: dict[str, Any], invocation: str) -> dict[str, Any]:
        return {**said, "match": {"model": self.model, "invocation": invocation}}


def cells(kinds: list[str]) -> list[Cell]:
    """Every cell of these kinds, with a model of its own."""
    every = [
        (kind, place, entry)
        for kind in kinds
        for place in PLACES
        for entry in _entries(kind, place)
    ]
    return [
        Cell(kind=kind, place=place, entry=entry, model=f"cell-{number}")
        for number, (kind, place, entry) in enumerate(every)
    ]


def _entries(kind: str, place: Place) -> tuple[str, ...]:
    """
    How the failure can be met: a single call calls no agents; `invoke` can't be cancelled, and a
    cancelled `ainvoke` ends in the task's cancellation, without an account.
    """
    if kind == "cancellation" or place == "subagent":
        return ("run",)
    return ("run", "invoke", "ainvoke")
