"""The code that one definition names, each path looked up once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mulligan.errors import InvalidInput
from mulligan.schemas.code import import_code
from mulligan.schemas.mcp_spec import mcp_spec
from mulligan.schemas.mcp_tools import Catalogue, mcp_names
from mulligan.schemas.tool_spec import ToolLike, ToolSpec
from mulligan.schemas.workflow import McpServerDefinition

__all__ = ["CodeTable"]


class CodeTable:
    """
    Tools and functions by `module:attribute`, and tools of MCP servers by `mcp:server/tool`: as the
    `catalogue` has them, or, without one, as far as the `servers` of the workflow tell.

    Every method raises InvalidInput, the same for the same path, where the code can't be used.
    """

    def __init__(
        self,
        folders: Sequence[str],
        servers: Mapping[str, McpServerDefinition | None],
        catalogue: Catalogue | None = None,
    ) -> None:
        self._folders = folders
        self._servers = servers
        self._catalogue = catalogue
        self._found: dict[str, Any] = {}

    def tool(self, path: str) -> ToolSpec:
        """The tool at `path`, recorded under this very path."""
        names = mcp_names(path)
        if names is not None:
            return mcp_spec(*names, self._servers, self._catalogue)
        found = self._get(path)
        if inspect.isclass(found) or not isinstance(found, ToolLike):
            raise InvalidInput(f"{path} is not a tool; decorate the function with @tool")
        return msgspec.structs.replace(found.spec(), path=path)

    def function(self, path: str) -> Callable[..., Any]:
        """The function at `path`."""
        found = self._get(path)
        if not callable(found):
            raise InvalidInput(f"{path} is not a function but of the type {type(found).__name__}")
        return found  # type: ignore[no-any-return]

    def _get(self, path: str) -> Any:
        if path not in self._found:
            try:
                self._found[path] = import_code(path, self._folders)
            except InvalidInput as error:
                self._found[path] = error
        found = self._found[path]
        if isinstance(found, InvalidInput):
            raise found
        return found
