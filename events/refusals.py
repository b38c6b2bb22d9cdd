"""
What the log answers instead of taking an append, as the error that says so.
"""

from __future__ import annotations

from typing import Literal, assert_never

from mulligan.errors import (
    InboxMoved,
    LeaseFenced,
    MulliganError,
    OperationStale,
    RunClosed,
    RunExists,
    RunUnknown,
    VersionConflict,
)
from mulligan.events.store import Append, ByTask, ByVersion

Refusal = Literal["EXISTS", "GONE", "CLOSED", "FENCED", "STALE", "DIRTY", "CONFLICT"]
Status = Refusal | Literal["OK", "DUP"]


def refusal(status: Refusal, append: Append, version: int, inbox: int) -> MulliganError:
    """
    Return the error for a refused append; `version` is the run's, `inbox` the writer's task's.
    """
    run = append.run
    match status:
        case "EXISTS":
            return RunExists(run)
        case "GONE":
            return RunUnknown(run)
        case "CLOSED":
            return RunClosed(run, "it has ended or is being cancelled (CLOSED)")
        case "FENCED":
            return LeaseFenced(run, f"{_task(append)} is not held under this token (FENCED)")
        case "STALE":
            return OperationStale(run, f"{_task(append)} had another last operation (STALE)")
        case "DIRTY":
            detail = f"{_task(append)} was woken since its inbox was read (DIRTY)"
            return InboxMoved(run, detail, inbox=inbox)
        case "CONFLICT":
            return VersionConflict(
                run, f"it is at version {version}, not {_seen(append)} (CONFLICT)"
            )
        case _:
            assert_never(status)


def _task(append: Append) -> str:
    return f"task {append.writer.task!r}" if isinstance(append.writer, ByTask) else "the task"


def _seen(append: Append) -> str:
    return str(append.writer.version) if isinstance(append.writer, ByVersion) else "the one named"
