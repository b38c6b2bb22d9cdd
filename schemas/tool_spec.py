"""What a plan records of a tool, without importing the tools that stand above it."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from mulligan.events.facts import EffectClass
from mulligan.schemas.mcp_tools import McpTool

__all__ = ["DEFAULT_TOOL_TIMEOUT_MS", "EffectCase", "Permission", "ToolLike", "ToolSpec"]

Permission = Literal["allow", "ask"]
"""Whether a call of a tool is run as it is made, or waits for a person's approval."""

DEFAULT_TOOL_TIMEOUT_MS = 60_000
"""How long a tool may run that names no limit of its own."""


class EffectCase(msgspec.Struct, frozen=True, kw_only=True):
    """The effect class of calls whose arguments have these values, among others."""

    given: dict[str, Any]
    effect: EffectClass


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """
    A tool as a plan records it.

    `parameters` is the plain JSON Schema of its arguments (`strict_schema` makes the providers'
    form of it); `path` is `module:attribute`, `digest` that of its source; `verifiable` says
    whether the tool can be asked, after a crash, if a `write` took effect; `permission` is what its
    author demands. `effect` is the class of all calls that none of `cases` is about.

    With `mcp` it is a server's tool: `path` is `mcp:server/tool`, `digest` that of its arguments'
    schema, which models are shown as the server wrote it.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: EffectClass
    path: str
    digest: str
    timeout_ms: int | None = None
    verifiable: bool = False
    permission: Permission = "allow"
    cases: tuple[EffectCase, ...] = ()
    mcp: McpTool | None = None

    def effect_of(self, arguments: dict[str, Any]) -> EffectClass:
        """The effect class of a call with these arguments: that of the first case that fits."""
        for case in self.cases:
            if all(
                name in arguments and arguments[name] == case.given[name] for name in case.given
            ):
                return case.effect
        return self.effect


@runtime_checkable
class ToolLike(Protocol):
    """Any object that says what tool it is counts as one; so nothing here imports the tools."""

    def spec(self) -> ToolSpec:
        """Describe the tool. Raises InvalidInput where its signature can't be described."""
        ...
