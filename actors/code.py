"""
The code that plans name, as this process carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mulligan.decisions.decision import (
    AskModel,
    CallFunction,
    Effect,
    JudgeDraft,
    ObserveTool,
    ReworkDraft,
    RunTool,
)
from mulligan.errors import CodeMissing, InvalidInput
from mulligan.schemas.code import code_digest, import_code
from mulligan.schemas.tool_spec import ToolSpec
from mulligan.tools.registry import Tool

if TYPE_CHECKING:
    from mulligan.tools.mcp.call import McpCall


class CodeTable:
    """
    Tools and functions by path, each imported and compared with its digest once. `note` hears of
    each that is looked for (`path@digest`) whether it is here.
    """

    def __init__(self, note: Callable[[str, bool], None] = lambda code, here: None) -> None:
        self._note = note
        self._found: dict[tuple[str, str], Any] = {}

    def of(self, effect: Effect, folders: tuple[str, ...]) -> Any:
        """
        The tool or function that an effect needs (both of a `ReworkDraft`), None if it needs none.

        Raises:
            CodeMissing: it is not here, or is another version than the one the plan names.
        """
        match effect:
            case AskModel():
                return None
            case RunTool() | ObserveTool() if effect.spec.mcp is not None:
                return server_tool(effect.spec)
            case RunTool() | ObserveTool():
                return self._get(effect.spec.path, effect.spec.digest, folders)
            case CallFunction():
                return self._get(effect.plan.call.path, effect.plan.call.digest, folders)
            case JudgeDraft():
                return self._get(effect.gates.call.path, effect.gates.call.digest, folders)
            case ReworkDraft():
                calls = effect.rework.call, effect.gates.call
                return tuple(self._get(call.path, call.digest, folders) for call in calls)

    def _get(self, path: str, digest: str, folders: tuple[str, ...]) -> Any:
        found = self._found.get((path, digest))
        if found is None:
            found = self._found[path, digest] = self._load(path, digest, folders)
        return found

    def _load(self, path: str, digest: str, folders: tuple[str, ...]) -> Any:
        try:
            found = load(path, digest, folders)
        except CodeMissing as missing:
            self._note(missing.code, False)
            raise
        self._note(f"{path}@{digest}", True)
        return found


def server_tool(spec: ToolSpec) -> McpCall:
    """A server's tool; its library is loaded by workers that need it only."""
    from mulligan.tools.mcp.call import McpCall

    return McpCall(spec)


def load(path: str, digest: str, folders: tuple[str, ...]) -> Any:
    """
    The tool or function at `path`, if its source has that digest.

    Raises:
        CodeMissing: it is not here, or is another version.
    """
    code = f"{path}@{digest}"
    try:
        found = import_code(path, folders)
    except InvalidInput as error:
        raise CodeMissing(f"this worker can't carry on: {error}", code) from None
    function = found.function if isinstance(found, Tool) else found
    if code_digest(function) != digest:
        raise CodeMissing(
            f"{path} is another version here than the one the run began with; "
            "run a worker with that version, then `mulligan redrive`",
            code,
        )
    return found
