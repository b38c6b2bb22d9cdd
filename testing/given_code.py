"""
What stands in for a worker's code, writes and messages where runs are worked in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mulligan.actors.code import CodeTable
from mulligan.actors.hints import Hints
from mulligan.actors.writes import Write
from mulligan.decisions.decision import (
    AskModel,
    CallFunction,
    Effect,
    JudgeDraft,
    ObserveTool,
    ReworkDraft,
    RunTool,
)
from mulligan.errors import CodeMissing
from mulligan.events.facts import Priority
from mulligan.tools.call import call_function
from mulligan.tools.result import ToolResult


class GivenCode(CodeTable):
    """The code that a test hands in, by the paths that plans name, whatever their digests."""

    def __init__(self, code: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__()
        self._code = code

    def of(self, effect: Effect, folders: tuple[str, ...]) -> Any:
        """See `CodeTable.of`."""
        match effect:
            case AskModel():
                return None
            case RunTool() | ObserveTool():
                return self._given(effect.spec.path)
            case CallFunction():
                return self._given(effect.plan.call.path)
            case JudgeDraft():
                return self._given(effect.gates.call.path)
            case ReworkDraft():
                calls = effect.rework.call, effect.gates.call
                return tuple(self._given(call.path) for call in calls)

    def _given(self, path: str) -> Any:
        if path not in self._code:
            raise CodeMissing(f"this world has no {path}", f"{path}@")
        return self._code[path]


class DirectHints(Hints):
    """Hints that need no queue: `wake` is told the task."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        self._wake = wake

    def send(self, task: str, priority: Priority = 0) -> None:
        """See `Hints.send`."""
        self._wake(task)


def carry_out(write: Write, code: Any) -> ToolResult:
    """Do a write here and now: call its function, or its tool."""
    if write.kind == "function":
        return call_function(code, write.arguments)
    result: ToolResult = code.call(write.arguments, key=write.key, context=write.context)
    return result
