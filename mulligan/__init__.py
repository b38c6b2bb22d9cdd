"""LLM workflows that finish, or stop honestly: event-sourced actors on Redis streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mulligan._version import __version__
from mulligan.errors import MulliganError

if TYPE_CHECKING:
    from mulligan.app import App
    from mulligan.async_client import AsyncClient
    from mulligan.client import Client
    from mulligan.completion.check import check_output
    from mulligan.schemas.builder import Workflow
    from mulligan.single_call import ainvoke, invoke
    from mulligan.tools.input_needed import InputNeeded
    from mulligan.tools.registry import tool

__all__ = [
    "App",
    "AsyncClient",
    "Client",
    "InputNeeded",
    "MulliganError",
    "Workflow",
    "__version__",
    "ainvoke",
    "check_output",
    "invoke",
    "tool",
]

# Loaded on first use: code that only reads events must not pay for validators or servers.
_LAZY = {
    "App": "mulligan.app",
    "AsyncClient": "mulligan.async_client",
    "Client": "mulligan.client",
    "InputNeeded": "mulligan.tools.input_needed",
    "Workflow": "mulligan.schemas.builder",
    "ainvoke": "mulligan.single_call",
    "check_output": "mulligan.completion.check",
    "invoke": "mulligan.single_call",
    "tool": "mulligan.tools.registry",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
