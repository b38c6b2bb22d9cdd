"""
The one loop that writes to a run on behalf of a task: load, decide, append.

    1. load     the shared fold, at least up to what the claim saw
    2. decide   pure; several steps, one append; before a request is announced, its slot is taken
       and, where it lets go of the task, what others would decide next, as long as that is clear
    3. append   under the lease's token; the very same bytes again when no answer came
    4. refused  inbox moved: read what came, decide again (the only place that does)
                lease lost, run closed: stop in silence; a tool's receipt is handed in as a fact
"""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from mulligan.actors.slots import decide_in_lane
from mulligan.decisions import people
from mulligan.decisions.decision import (
    Context,
    Decision,
    Effect,
    FunctionOutcome,
    Outcome,
    ToolOutcome,
)
from mulligan.decisions.onward import onward
from mulligan.errors import (
    AppendRefused,
    CodeMissing,
    InboxMoved,
    LeaseFenced,
    OperationStale,
    RunClosed,
    RunUnknown,
    StoreFull,
    StoreUnavailable,
    VersionConflict,
)
from mulligan.events.crash_points import reach
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import RunPaused
from mulligan.events.payload import Payload
from mulligan.events.sealed import unseal
from mulligan.events.store import Append, Appended, ByTask, Claimed, Held, Take
from mulligan.projections.state import RunState

if TYPE_CHECKING:
    from mulligan.actors.runtime import Runtime
    from mulligan.actors.session import Session

MAX_DECISIONS = 50
"""
Decisions in a row that the inbox may overtake. What an effect came to is then recorded by itself,
which no inbox holds up; else the task is given back.
"""

MOST_ONWARD = 2
"""Of those, how many may tell what others have to do next; a decision then tells only its own."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Between two tries of an append that got no answer."""

_log = structlog.get_logger(__name__)


class Taken(NamedTuple):
    """
    A task to work: its lease, when that was asked for (by the leases' clock), whether the fold is
    as of then, and an effect that is announced already, with the events that say so.
    """

    claimed: Claimed
    sent_s: float
    folded: bool = False
    effect: Effect | None = None
    events: tuple[NewEvent, ...] = ()


def mint() -> str:
    """A fresh random name for an operation or a lease: 96 bits, no counter to be set back."""
    return secrets.token_urlsafe(12)


def transact(session: Session, outcome: Outcome | None) -> Decision | None:
    """
    Decide and append once. None: the task is not ours to go on with, or is given back.

    Raises:
        CodeMissing: what comes next needs code that is not here; what the last effect came to is
            in the log.
    """
    runtime, fold = session.runtime, session.fold
    record_only, missing = session.draining, None
    goes_onward = session.may_go_onward
    for left in reversed(range(MAX_DECISIONS)):
        record_only = record_only or (left == 0 and outcome is not None)
        state = fold.branch()
        context = _context(session, state)
        decision = decide_in_lane(
            session.slot, state, session.task, context, outcome, record_only=record_only
        )
        if goes_onward and not record_only:
            decision = _onward(state, session.task, decision, context)
        if not decision.events and not decision.moves:
            return decision
        append = _append(session, decision, state.last_event, state.correlation)
        waits = decision.as_of is None and (outcome is None or record_only)
        sent_s = runtime.leases.now_s()
        try:
            if decision.effect is not None:
                session.code_of(decision.effect)  # what can't be done here is not announced either
            appended = repeat(runtime, append, session.lease, wait_when_full=waits)
        except (CodeMissing, StoreFull) as error:
            if decision.as_of is not None:
                goes_onward = False  # it is another's to run into that
                continue
            if waits:
                raise
            # Not what comes next, but what has been done can be recorded.
            record_only, missing = True, error if isinstance(error, CodeMissing) else None
        except InboxMoved as moved:
            goes_onward = goes_onward and left > MAX_DECISIONS - MOST_ONWARD
            session.inbox = moved.inbox
            fold.catch_up()
        except (LeaseFenced, OperationStale):
            _hand_in(session, outcome, taken=True)
            return None
        except (RunClosed, RunUnknown):
            _hand_in(session, outcome, taken=False)
            return None
        else:
            fold.take(appended)
            session.previous_op = append.op
            taken = appended.taken
            if taken is not None:
                session.following = Taken(taken, sent_s, True, decision.effect, decision.events)
            others = [m for m in decision.moves if taken is None or m.task != taken.task]
            runtime.hints.send_all(others, state.priority)
            reach("append.after")
            runtime.tracing.appended(session.run, append.op, appended)
            if state.tenant is not None and _stands(decision):
                runtime.admission.over(session.run, state.tenant)
            if missing is not None:
                raise missing
            return decision
    runtime.store.give_back(Held(session.run, session.task, session.token))
    return None


def _onward(state: RunState, task: str, decision: Decision, context: Context) -> Decision:
    """With what follows; what fails about that fails again where it belongs."""
    try:
        return onward(state, task, decision, context)
    except Exception as error:
        _log.info("left_to_others", task=task, reason=type(error).__name__)
        return decision


def _stands(decision: Decision) -> bool:
    """Whether the run has ended with it, or waits for a person."""
    return decision.phase == "closed" or any(
        isinstance(event.data, RunPaused) for event in decision.events
    )


def _context(session: Session, state: RunState) -> Context:
    def value_of(payload: Payload) -> Any:
        return session.runtime.cache.value(session.run, payload)

    def candidate_of(task: str) -> str | None:
        sealed = session.runtime.store.sealed(task)
        return unseal(sealed) if sealed is not None else None

    prepare = session.runtime.provider.prepare
    return Context(
        session.now_ms(),
        value_of,
        prepare,
        random.random(),
        candidate_of,
        others_end_in_ms=session.others_end_in_ms(),
        turn_ms=session.turn_ms(state),
    )


def _append(
    session: Session, decision: Decision, last_event: str, correlation: str | None
) -> Append:
    writer = ByTask(
        task=session.task,
        token=session.token,
        previous_op=session.previous_op,
        inbox=session.inbox,
        intent=decision.effect is not None,
    )
    take = None
    if decision.follows is not None:
        take = Take(decision.follows, mint(), session.runtime.lease_ms)
    return Append(
        run=session.run,
        op=mint(),
        writer=writer,
        events=decision.events,
        moves=decision.moves,
        phase=decision.phase,
        causation=last_event or None,
        correlation=correlation,
        sealed=decision.sealed,
        discarded=decision.discarded,
        take=take,
        as_of=decision.as_of,
    )


def repeat(
    runtime: Runtime, append: Append, lease: Any = None, *, wait_when_full: bool = True
) -> Appended:
    """
    Append; as long as no answer comes, hand in the very same bytes again.

    Raises:
        AppendRefused: the log did not take it.
        StoreUnavailable, StoreFull: no answer or no room, and the lease has run out meanwhile
            (without a lease, or where it shall not wait for room: the first failure).
    """
    pause_s = FIRST_PAUSE_S
    while True:
        reach("append.before")
        try:
            return runtime.store.append(append)
        except (StoreUnavailable, StoreFull) as error:
            waits = wait_when_full or not isinstance(error, StoreFull)
            if lease is None or lease.lost or not waits:
                raise
            _log.warning("append_repeated", run=append.run, error=type(error).__name__)
        runtime.pause(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _hand_in(session: Session, outcome: Outcome | None, *, taken: bool) -> None:
    """
    What a tool or function came to is true whoever holds the lease now: a fact about its call.
    `taken`: the task is another's, who may have taken the call up again.
    """
    if not isinstance(outcome, ToolOutcome | FunctionOutcome):
        return
    for _ in range(MAX_DECISIONS):
        session.fold.catch_up()
        state = session.fold.branch()
        late = people.late(state, mint(), outcome, taken=taken)
        if late is None:
            _log.warning("late_receipt_ignored", run=session.run, reason="its call is not open")
            return
        try:
            repeat(session.runtime, late)
        except VersionConflict:
            continue
        except (AppendRefused, RunUnknown) as refused:
            _log.info("late_receipt_ignored", run=session.run, reason=type(refused).__name__)
            return
        session.runtime.hints.send_all(late.moves, state.priority)
        return
