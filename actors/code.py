"""
The code that plans name, as this process carries it.
"""

from __future__ import annotations

from typing import Any

from mulligan.decisions.decision import AskModel, CallFunction, Effect, RunTool
from mulligan.errors import CodeMissing, InvalidInput
from mulligan.schemas.code import code_digest, import_code
from mulligan.tools.registry import Tool


class CodeTable:
    """Tools and functions by path, each imported and compared with its digest once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Any] = {}

    def of(self, effect: Effect, folders: tuple[str, ...]) -> Any:
        """
        The tool or function that an effect needs, None where it needs none.

        Raises:
            CodeMissing: it is not here, or is another version than the one the plan names.
        """
        match effect:
            case AskModel():
                return None
            case RunTool():
                return self._get(effect.spec.path, effect.spec.digest, folders)
            case CallFunction():
                return self._get(effect.plan.call.path, effect.plan.call.digest, folders)

    def _get(self, path: str, digest: str, folders: tuple[str, ...]) -> Any:
        found = self._found.get((path, digest))
        if found is None:
            found = self._found[path, digest] = load(path, digest, folders)
        return found


def load(path: str, digest: str, folders: tuple[str, ...]) -> Any:
    """
    The tool or function at `path`, if its source has that digest.

    Raises:
        CodeMissing: it is not here, or is another version.
    """
    try:
        found = import_code(path, folders)
    except InvalidInput as error:
        raise CodeMissing(f"this worker can't carry on: {error}") from None
    function = found.function if isinstance(found, Tool) else found
    if code_digest(function) != digest:
        raise CodeMissing(
            f"{path} is another version here than the one the run began with; "
            "run a worker with that version, then `mulligan resume`"
        )
    return found
