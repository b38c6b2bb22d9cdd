"""
Task ids: the unit of work and of leases, named so that the id alone says who works it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

from mulligan.events.schedules import is_schedule, schedule_name

TaskKind = Literal["run", "node", "subagent", "overseer", "repair", "schedule"]
KINDS: tuple[TaskKind, ...] = get_args(TaskKind)
"""Who works a task: an actor for each."""

_KINDS: dict[str, TaskKind] = {"n": "node", "s": "subagent", "o": "overseer", "q": "repair"}


def run_task(run: str) -> str:
    """The run's own task, which alone takes graph decisions; a schedule's only one."""
    return f"{run}/"


def node_task(run: str, node: str) -> str:
    """The task of a node's instance."""
    return f"{run}/n:{node}"


def subagent_task(run: str, invocation: str) -> str:
    """The task of a called agent's invocation."""
    return f"{run}/s:{invocation}"


def overseer_task(run: str, invocation: str, attempt: int) -> str:
    """The task of the one repair of an attempt's output."""
    return f"{run}/o:{invocation}.{attempt}"


def overseer_subject(subject: str) -> tuple[str, int]:
    """The invocation and the attempt that a task of the overseer's is about."""
    invocation, _, attempt = subject.rpartition(".")
    return invocation, int(attempt)


def repair_task(run: str, node: str) -> str:
    """The task of a node's repair loop."""
    return f"{run}/q:{node}"


@lru_cache(4_096)
def parse_task(task: str) -> tuple[str, TaskKind, str]:
    """
    Return a task's run, kind, and what it is about (empty for the run's own); of a schedule's, the
    stream and its name.

    Raises:
        ValueError: not a task id.
    """
    run, slash, rest = task.partition("/")
    if not slash or not run:
        raise ValueError(f"not a task id: {task!r}")
    if not rest:
        return (run, "schedule", schedule_name(run)) if is_schedule(run) else (run, "run", "")
    kind, colon, subject = rest.partition(":")
    if not colon or kind not in _KINDS:
        raise ValueError(f"not a task id: {task!r}")
    return run, _KINDS[kind], subject
