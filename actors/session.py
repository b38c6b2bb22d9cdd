"""
A claimed task, worked in this thread until it is released or lost.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import structlog

from mulligan.actors.perform import perform
from mulligan.actors.schedule_session import ScheduleSession
from mulligan.actors.slots import RequestSlot
from mulligan.actors.transact import Taken, mint, repeat, transact
from mulligan.decisions.decision import Effect, Outcome
from mulligan.decisions.parking import parked
from mulligan.decisions.reactions import reactions
from mulligan.errors import (
    AppendRefused,
    CodeMissing,
    EventUnreadable,
    InboxMoved,
    MulliganError,
    PayloadKeyMissing,
    RunUnknown,
    StoreFull,
    StoreUnavailable,
)
from mulligan.events.crash_points import reach
from mulligan.events.envelope import NewEvent
from mulligan.events.ids import node_of_invocation
from mulligan.events.keys import partition_of
from mulligan.events.store import Append, ByTask, Claimed, Held, Move, NotClaimed
from mulligan.events.tasks import overseer_subject, parse_task, run_task
from mulligan.logs import bound, stack_of

if TYPE_CHECKING:
    from mulligan.actors.leases import Lease
    from mulligan.actors.runtime import Runtime
    from mulligan.projections.state import RunState

TURN_S = 0.25
"""
How long a thread goes on from one task of a run to the next: long beside a message's way through
the queue, short for whoever waits there.
"""

ELSEWHERE_MS = 1_000
"""How long a task stays away whose code is not here; another worker may take it then."""
UNREADABLE_AGAIN_MS = 5_000
"""How soon a run that this code is too old for is offered to workers again."""
CANCEL_AGAIN_MS = 30_000
"""How soon a cancellation that failed is tried again."""

_log = structlog.get_logger(__name__)


def work(runtime: Runtime, task: str) -> None:
    """
    Claim a task and work it, and then what follows from it, each under its own lease. Whatever a
    message said, the log decides: one that is early, doubled or stale finds nothing to claim.
    """
    run, kind, _ = parse_task(task)
    reach("message.read")
    vault = runtime.store.vault
    if vault.lacking and runtime.passing_on.left(vault, task):
        return
    sent_s = runtime.leases.now_s()
    claimed = runtime.store.claim(run, task, mint(), runtime.lease_ms)
    if isinstance(claimed, NotClaimed):
        return
    partition = partition_of(run, runtime.store.partitions())
    runtime.clocks.seen(partition, claimed.now_ms, sent_s)
    if kind == "schedule":
        _work_schedule(runtime, claimed, sent_s)
        return
    taken: Taken | None = Taken(claimed, sent_s)
    while taken is not None:
        taken = _work(runtime, run, taken, until_s=sent_s + TURN_S)


def _work(runtime: Runtime, run: str, taken: Taken, until_s: float) -> Taken | None:
    """Work one task; the one to go on with."""
    claimed, began_ns = taken.claimed, time.time_ns()
    held = Held(run, claimed.task, claimed.token)
    with (
        bound(**_about(claimed.task)),
        runtime.leases.hold(held, claimed.inbox, claimed.phase, taken.sent_s) as lease,
    ):
        if taken.effect is None:
            reach("task.claimed")
        session = Session(runtime, run, taken, lease, until_s)
        session.go_on()
        took_over = claimed.claims > 0
        runtime.tracing.worked(session.fold, claimed.task, began_ns, took_over=took_over)
    return session.following


def _work_schedule(runtime: Runtime, claimed: Claimed, sent_s: float) -> None:
    held = Held(parse_task(claimed.task)[0], claimed.task, claimed.token)
    with (
        bound(**_about(claimed.task)),
        runtime.leases.hold(held, claimed.inbox, claimed.phase, sent_s) as lease,
    ):
        reach("task.claimed")
        ScheduleSession(runtime, claimed, lease).go_on()


def _about(task: str) -> dict[str, Any]:
    """What every line of the log that is written while a task is worked tells of it."""
    run, kind, subject = parse_task(task)
    about = {"run": run, "task": task}
    match kind:
        case "run" | "schedule":
            return about
        case "node" | "repair":
            return {**about, "node": subject}
        case "subagent":
            return {**about, "node": node_of_invocation(subject)}
        case "overseer":
            invocation, attempt = overseer_subject(subject)
            return {**about, "node": node_of_invocation(invocation), "attempt": attempt}


class Session:
    """What a worker knows of the task it holds; `transact` keeps it in step with the log."""

    def __init__(
        self, runtime: Runtime, run: str, taken: Taken, lease: Lease, until_s: float
    ) -> None:
        claimed = taken.claimed
        self.runtime = runtime
        self.run = run
        self.task = claimed.task
        self.token = claimed.token
        self.previous_op = claimed.op
        self.inbox = claimed.inbox
        self.lease = lease
        self.slot = RequestSlot(runtime.slots, claimed.task, claimed.token)
        self.poison = claimed.poison
        self.following: Taken | None = None
        """the task that is held next, once this one is released"""
        self._taken = taken
        self._until_s = until_s
        self._took_over = claimed.claims > 0
        self._counted = False
        self.fold = runtime.cache.fold(run)
        self._version = claimed.version
        self._server_ms = claimed.now_ms
        self._claimed_s = runtime.leases.now_s()

    @property
    def draining(self) -> bool:
        """Whether this process is about to end: what is under way is recorded, no more begun."""
        return self.runtime.draining

    @property
    def may_go_onward(self) -> bool:
        """
        Whether this thread may take up what follows from its task. After a while the queue says
        what it does next, where others may have waited, with a higher priority perhaps.
        """
        return self.runtime.leases.now_s() < self._until_s

    def code_of(self, effect: Effect) -> Any:
        """
        The tool or function that an effect needs.

        Raises:
            CodeMissing: it is not here as the plan knew it.
        """
        return self.runtime.code.of(effect, self.fold.code_path)

    def now_ms(self) -> int:
        """The server's clock, carried on by ours since the claim."""
        return self._server_ms + int((self.runtime.leases.now_s() - self._claimed_s) * 1000)

    def others_end_in_ms(self) -> int:
        """How long a worker that lost this task to us may still do what it was doing."""
        if not self._took_over:
            return 0
        partition = partition_of(self.run, self.runtime.store.partitions())
        return self.runtime.clocks.others_end_in_ms(partition)

    def turn_ms(self, state: RunState) -> int | None:
        """How long the run has to wait before it may begin; None: it may, or has begun."""
        if state.tenant is None or self.task != run_task(self.run):
            return None
        if not self._counted:
            self._counted = True
            self.runtime.admission.keep(state)
        return self.runtime.admission.wait_ms(state)

    def go_on(self) -> None:
        """Decide and do, one thing at a time, until the task is released, lost or parked."""
        try:
            if not self._taken.folded:
                self.fold.reach(self._version)
            if self.poison:
                self._park("its workers were lost again and again while they worked on it")
            else:
                self._loop()
        except (StoreUnavailable, StoreFull) as error:
            _log.warning("task_left", reason=type(error).__name__)
        except CodeMissing as missing:
            self._leave_to_others(missing)
        except PayloadKeyMissing as error:  # for workers that have it; from now on left unclaimed
            _log.error("task_left", reason=str(error))
            self._give_back()
            self.runtime.passing_on.left(self.runtime.store.vault, self.task)
        except EventUnreadable as error:  # by a newer version of the code: for its workers
            _log.error("task_left", reason=str(error))
            self._leave_for(UNREADABLE_AGAIN_MS)
        except Exception as error:  # what no decision names parks the run instead of looping
            _log.error("task_parked", stack=stack_of(error))
            self._park(_named(error))
        finally:
            self.slot.give_back()

    def _loop(self) -> None:
        outcome: Outcome | None = None
        if self._taken.effect is not None:
            if not self.lease.may_start():
                return
            outcome = self._do(self._taken.effect, self._taken.events)
        while True:
            if self.draining and outcome is None:
                self.runtime.store.give_back(Held(self.run, self.task, self.token))
                return
            decision = transact(self, outcome)
            if decision is None or decision.release is not None:
                break
            outcome = None
            if decision.effect is not None:
                if not self.lease.may_start():
                    return
                outcome = self._do(decision.effect, decision.events)
        if decision is not None and decision.phase == "closed":
            self.runtime.cache.forget(self.run)

    def _do(self, effect: Effect, intent: tuple[NewEvent, ...]) -> Outcome:
        """Do it; what is logged meanwhile names the node and attempt that it is announced for."""
        said = intent[-1] if intent else None
        node, attempt = (said.node, said.attempt) if said is not None else (None, None)
        with (
            bound(run=self.run, node=node, attempt=attempt),
            self.runtime.tracing.within(self.fold, effect),
        ):
            return perform(self, effect)

    def _leave_to_others(self, missing: CodeMissing) -> None:
        """Let another worker have the task, as long as one that lives may carry the code."""
        if self.runtime.roster.others_may_carry(missing.code):
            _log.info("left_to_others", code=missing.code)
            self._leave_for(ELSEWHERE_MS)
        else:
            self._park(_named(missing))

    def _give_back(self) -> None:
        """Let go of the task at once, unless the server is away: then its lease runs out."""
        try:
            self.runtime.store.give_back(Held(self.run, self.task, self.token))
        except StoreUnavailable as error:
            _log.warning("not_released", reason=type(error).__name__)

    def _leave_for(self, delay_ms: int) -> None:
        """Let go of the task; it is offered again after a while."""
        try:
            self._release((), Move(self.task, "timer", delay_ms))
        except (StoreUnavailable, StoreFull) as error:
            _log.warning("not_released", reason=type(error).__name__)

    def _park(self, detail: str) -> None:
        """Append the parking event and wait for an operator; silently if the task is lost."""
        try:
            self.fold.catch_up()
            state = self.fold.branch()
            if state.status == "cancelling":  # nobody could wake it: it tries again by itself
                self._release((), Move(self.task, "timer", CANCEL_AGAIN_MS))
            else:
                # Nobody wakes an overseer again; all others wait for an operator.
                over = parse_task(self.task)[1] == "overseer"
                leave = Move(self.task, "end" if over else "wait")
                candidate = (self.task,) if over else ()
                self._release(parked(state, self.task, detail), leave, candidate)
        except (StoreUnavailable, StoreFull) as error:
            _log.warning("not_parked", reason=type(error).__name__)

    def _release(
        self, events: tuple[NewEvent, ...], move: Move, discarded: tuple[str, ...] = ()
    ) -> None:
        """Append `events` and let go of the task; silently if it is lost."""
        state = self.fold.branch()
        append = Append(
            run=self.run,
            op=mint(),
            writer=ByTask(self.task, self.token, self.previous_op, self.inbox),
            events=events,
            moves=(*reactions(state, events, self.task), move),
            causation=state.last_event or None,
            correlation=state.correlation,
            discarded=discarded,
        )
        try:
            appended = repeat(self.runtime, append, self.lease)
        except InboxMoved:  # there is news: whoever takes it next reads that first
            self.runtime.store.give_back(Held(self.run, self.task, self.token))
        except (AppendRefused, RunUnknown) as refused:
            _log.warning("not_released", reason=type(refused).__name__)
        else:
            self.runtime.hints.send_all(append.moves, state.priority)
            self.runtime.tracing.appended(self.run, append.op, appended)


def _named(error: Exception) -> str:
    """An error in words that are ours: a message of our own, else the name of its class."""
    if isinstance(error, MulliganError):
        return f"{type(error).__name__}: {error}"
    return f"{type(error).__name__} in the worker; its log has the stack"
