"""What a plan records of a tool, without importing the tools that stand above it."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from mulligan.events.facts import EffectClass

__all__ = ["DEFAULT_TOOL_TIMEOUT_MS", "Permission", "ToolLike", "ToolSpec"]

Permission = Literal["allow", "ask"]
"""Whether a call of a tool is run as it is made, or waits for a person's approval."""

DEFAULT_TOOL_TIMEOUT_MS = 60_000
"""How long a tool may run that names no limit of its own."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """
    A tool as a plan records it.

    `parameters` is the plain JSON Schema of its arguments (`strict_schema` makes the providers'
    form of it); `path` is `module:attribute`, `digest` that of its source; `verifiable` says
    whether the tool can be asked, after a crash, if a `write` took effect; `permission` is what its
    author demands.
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


@runtime_checkable
class ToolLike(Protocol):
    """Any object that says what tool it is counts as one; so nothing here imports the tools."""

    def spec(self) -> ToolSpec:
        """Describe the tool. Raises InvalidInput where its signature can't be described."""
        ...
