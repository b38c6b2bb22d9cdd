"""The one tool that an editor has: an edit of a line, its replacement gated before it counts."""

from __future__ import annotations

from mulligan import tool
from mulligan.errors import ToolError
from mulligan.workflows.article.judging import faults_of


@tool(effect="read")
def edit(line: int, before: str, after: str) -> str:
    """
    Replace the words `before` of a line, exactly as they stand there, by `after`. Edits are applied
    in order when you are done.
    """
    problem = refused(after)
    if problem is not None:
        raise ToolError("replacement_refused", problem)
    return "noted"


def refused(after: str) -> str | None:
    """Why a replacement may not stand: no banned word replaces another (RPR-12)."""
    faults = faults_of(after)
    return f"the replacement itself has a fault: {faults[0]}" if faults else None
