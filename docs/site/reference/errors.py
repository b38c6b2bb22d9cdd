"""Errors with their exit codes and what the HTTP API makes of them, and the words of failures."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args

from mulligan import errors as tree
from mulligan.errors import MulliganError
from mulligan.events.facts import PauseReason, RepairFailure, RetryReason, ToolOutcome
from mulligan.web.problems import answered_as
from reference.table import table


def errors() -> str:
    """The tree, a table of it, and the words by which the log tells what went wrong."""
    kinds = [getattr(tree, name) for name in sorted(tree.__all__)]
    drawn = re.search(r"^ {4}MulliganError\n(?: {4}.*\n)+", tree.__doc__ or "", re.MULTILINE)
    assert drawn is not None, "mulligan.errors draws its tree no more"
    return "\n".join(
        [
            f"```text\n{inspect.cleandoc(drawn[0])}\n```\n",
            table(("error", "is", "exit code", "HTTP", "`code`"), map(_row, kinds)),
            _words("Why a run or a node waits", PauseReason),
            _words("Why an agent is asked once more", RetryReason),
            _words("Why the overseer could not help", RepairFailure),
            _words("What became of a tool's call", ToolOutcome),
        ]
    )


def _row(kind: type[MulliganError]) -> tuple[str, ...]:
    status, code = answered_as(kind)
    is_a = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return f"`{kind.__name__}`", is_a, str(kind.exit_code), str(status), f"`{code}`"


def _words(title: str, literal: Any) -> str:
    return f"## {title}\n\n{', '.join(f'`{word}`' for word in get_args(literal))}.\n"
