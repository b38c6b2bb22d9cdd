"""
Runs and tasks as `MemoryEventStore` holds them, and what moves each: the rows and records of
`lua/append.lua`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mulligan.events.refusals import Status
from mulligan.events.store import MAX_CLAIMS, Append, AsFact, ByVersion, Claimed, RunPhase
from mulligan.events.tasks import run_task

FACT_KEYS_KEPT = 100
"""As in `lua/append.lua`: a repeat after a hundred other facts is left to the folds."""

State = Literal["ready", "timer", "leased", "waiting"]


@dataclass(slots=True)
class MemoryTask:
    """
    A task's record and its due entry: `due_ms` is None while it waits, and `token` stays after a
    lease ran out, until a claim.
    """

    state: State
    due_ms: int | None
    token: str = ""
    op: str = ""
    inbox: int = 0
    claims: int = 0


@dataclass(slots=True)
class MemoryRun:
    """A run: its row, its stream and its payloads."""

    digest: str
    phase: RunPhase = "open"
    person_op: str = ""
    closing_op: str = ""
    fact_ops: dict[str, str] = field(default_factory=dict)
    events: list[tuple[int, bytes]] = field(default_factory=list)
    """time and bytes; the version is the place, from 1"""
    payloads: dict[str, bytes] = field(default_factory=dict)
    retired: int = 0
    """events that are kept elsewhere"""
    dropped: int = 0
    """events that stood before the stream began anew"""

    @property
    def version(self) -> int:
        """How many events there are."""
        return self.retired + len(self.events)

    @property
    def ended(self) -> bool:
        """Whether it takes no more work."""
        return self.phase in ("closed", "archived")


def judge_person(append: Append, version: int, run: MemoryRun) -> Status:
    """Whether a person's append is taken."""
    if run.person_op == append.op:
        return "DUP"
    if run.phase != "open":
        return "CLOSED"
    return "OK" if run.version == version else "CONFLICT"


def judge_fact(append: Append, writer: AsFact, run: MemoryRun) -> Status:
    """Whether a fact is taken."""
    if run.fact_ops.get(writer.key) == append.op:
        return "DUP"
    if run.phase == "archived" or (run.phase == "closed" and not writer.receipt):
        return "CLOSED"
    return "OK"


def move_run(append: Append, run: MemoryRun) -> None:
    """What an append does to the run's phase and to the memory of operations."""
    if append.phase == "closed" and not run.ended:
        run.phase, run.closing_op = "closed", append.op
    elif append.phase == "cancelling" and run.phase == "open":
        run.phase = "cancelling"
    if isinstance(append.writer, ByVersion):
        run.person_op = append.op
    elif isinstance(append.writer, AsFact):
        run.fact_ops.pop(append.writer.key, None)
        run.fact_ops[append.writer.key] = append.op
        if len(run.fact_ops) > FACT_KEYS_KEPT:
            del run.fact_ops[next(iter(run.fact_ops))]


def wake(task: MemoryTask, due_ms: int) -> None:
    """Tell a task that something arrived."""
    task.inbox += 1
    if task.state in ("waiting", "timer"):
        task.state, task.due_ms = "ready", due_ms


def is_left_over(name: str, task: MemoryTask, run: MemoryRun, run_name: str, now_ms: int) -> bool:
    """Whether a task has nothing left to do, since its run ended or is being cancelled."""
    live = task.state == "leased" and task.due_ms is not None and task.due_ms > now_ms
    left_by_cancellation = run.phase == "cancelling" and name != run_task(run_name) and not live
    return run.ended or left_by_cancellation


def not_yet(task: MemoryTask, now_ms: int) -> Literal["IDLE", "BUSY", "EARLY"] | None:
    """Why a task can't be claimed, or None."""
    if task.due_ms is None:
        return "IDLE"
    if task.state == "ready" or task.due_ms <= now_ms:
        return None
    return "BUSY" if task.state == "leased" else "EARLY"


def claimed(name: str, task: MemoryTask, run: MemoryRun, now_ms: int) -> Claimed:
    """The lease that a claim has set down."""
    lost = task.claims - 1
    return Claimed(
        task=name,
        token=task.token,
        version=run.version,
        phase=run.phase,
        op=task.op,
        inbox=task.inbox,
        claims=lost,
        now_ms=now_ms,
        poison=lost >= MAX_CLAIMS,
    )
