"""LLM workflows that finish, or stop honestly: event-sourced actors on Redis streams."""

from __future__ import annotations

from mulligan._version import __version__
from mulligan.errors import MulliganError

__all__ = ["MulliganError", "__version__"]
