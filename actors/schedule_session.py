"""
A claimed schedule: its firings in the log, their runs asked for, until it is released or lost.

    1. load     its stream, from where it last began anew
    2. decide   pure: what is due fires or is skipped
    3. append   the intents, under the lease's token
    4. ask      for the run of one firing, then decide again with what came of it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from mulligan.actors.transact import mint, repeat
from mulligan.asked import check_input, check_models
from mulligan.decisions import people
from mulligan.decisions.decision import Release
from mulligan.decisions.schedule import (
    Asked,
    AskRun,
    ScheduleDecision,
    decide,
    given_up,
    schedule_tag,
)
from mulligan.errors import (
    AppendRefused,
    EventUnreadable,
    InboxMoved,
    MulliganError,
    RunExists,
    RunUnknown,
    StoreFull,
    StoreUnavailable,
    TenantQueueFull,
    WorkflowInvalid,
)
from mulligan.events.crash_points import reach
from mulligan.events.payload import Payload
from mulligan.events.schedules import schedule_name
from mulligan.events.store import Append, ByTask, Claimed, Held, Move
from mulligan.events.tasks import parse_task
from mulligan.flow import compile_flow
from mulligan.logs import stack_of
from mulligan.projections.schedule import ScheduleState, evolve, fold
from mulligan.schemas.plan import Plan

if TYPE_CHECKING:
    from mulligan.actors.leases import Lease
    from mulligan.actors.runtime import Runtime
    from mulligan.schemas.workflow import WorkflowDefinition

ELSEWHERE_MS = 1_000
"""How long a firing stays away whose workflow is not here; another worker may take it then."""
AGAIN_MS = 30_000
"""How soon a schedule is offered again that failed here for a reason that no fact names."""

_log = structlog.get_logger(__name__)


class _Elsewhere(Exception):
    """The workflow can't be loaded here, and another live worker has not said so yet."""


class ScheduleSession:
    """What a worker knows of the schedule that it holds."""

    def __init__(self, runtime: Runtime, claimed: Claimed, lease: Lease) -> None:
        self._runtime = runtime
        self._stream = parse_task(claimed.task)[0]
        self._task = claimed.task
        self._token = claimed.token
        self._previous_op = claimed.op
        self._inbox = claimed.inbox
        self._poison = claimed.poison
        self._lease = lease
        self._server_ms = claimed.now_ms
        self._claimed_s = runtime.leases.now_s()

    def go_on(self) -> None:
        """Fire what is due, until the task is released or lost."""
        try:
            self._loop()
        except (StoreUnavailable, StoreFull) as error:
            _log.warning("schedule_left", reason=type(error).__name__)
        except _Elsewhere:
            _log.info("left_to_others", schedule=schedule_name(self._stream))
            self._leave_for(ELSEWHERE_MS)
        except EventUnreadable as error:  # by a newer version of the code: for its workers
            _log.error("schedule_left", reason=str(error))
            self._leave_for(AGAIN_MS)
        except Exception as error:
            _log.error("schedule_left", stack=stack_of(error))
            self._leave_for(AGAIN_MS)

    def _loop(self) -> None:
        state = fold(schedule_name(self._stream), self._runtime.store.read(self._stream))
        asked = given_up(state) if self._poison else None
        while True:
            if self._runtime.draining and asked is None:
                self._runtime.store.give_back(Held(self._stream, self._task, self._token))
                return
            decision = decide(state, self._now_ms(), self._is_open, asked)
            after = self._appended(state, decision)
            if after is None or decision.ask is None or not self._lease.may_start():
                return
            state = after
            asked = self._ask(decision.ask)

    def _now_ms(self) -> int:
        """The server's clock, carried on by ours since the claim."""
        return self._server_ms + int((self._runtime.leases.now_s() - self._claimed_s) * 1_000)

    def _is_open(self, run: str) -> bool:
        row = self._runtime.store.row(run)
        return row is not None and row.phase in ("open", "cancelling")

    # --- The log ---------------------------------------------------------------------------------

    def _appended(self, state: ScheduleState, decision: ScheduleDecision) -> ScheduleState | None:
        """The state after a decision is in the log; None: the task is not ours to go on with."""
        if not decision.events and decision.release is None:
            return state  # an intent that a lost worker has left
        append = self._append(state, decision)
        try:
            appended = repeat(self._runtime, append, self._lease)
        except InboxMoved:  # somebody paused it, or wants a run: whoever takes it next reads that
            self._runtime.store.give_back(Held(self._stream, self._task, self._token))
            return None
        except (AppendRefused, RunUnknown) as refused:
            _log.info("schedule_lost", reason=type(refused).__name__)
            return None
        reach("append.after")
        self._previous_op = append.op
        for event in appended.events:
            state = evolve(state, event)
        return state

    def _append(self, state: ScheduleState, decision: ScheduleDecision) -> Append:
        intent = decision.ask is not None
        release = decision.release
        return Append(
            run=self._stream,
            op=mint(),
            writer=ByTask(self._task, self._token, self._previous_op, self._inbox, intent),
            events=decision.events,
            moves=(self._move(release),) if release is not None else (),
            causation=state.last_event or None,
            begins_anew=decision.begins_anew,
        )

    def _move(self, release: Release) -> Move:
        return Move(self._task, release.to, release.delay_ms)

    def _leave_for(self, delay_ms: int) -> None:
        """Let go of the task; it is offered again after a while."""
        writer = ByTask(self._task, self._token, self._previous_op, self._inbox)
        move = self._move(Release("timer", delay_ms))
        append = Append(run=self._stream, op=mint(), writer=writer, events=(), moves=(move,))
        try:
            repeat(self._runtime, append, self._lease)
        except MulliganError as error:
            _log.info("schedule_not_released", reason=type(error).__name__)

    # --- Runs ------------------------------------------------------------------------------------

    def _ask(self, ask: AskRun) -> Asked:
        """Ask for the run of a firing, and say what came of it."""
        given = self._value(ask.input)
        try:
            plan = self._plan(ask)
            check_models(plan)
            check_input(plan, given)
        except (StoreUnavailable, StoreFull, _Elsewhere):
            raise
        except Exception as error:  # whatever a module that a workflow names does when imported
            _log.warning("schedule_unusable", stack=stack_of(error))
            return ask.refused("unusable", _told(error))
        try:
            self._request(ask, plan, given)
        except RunExists as exists:
            return ask.refused("run_id_taken", str(exists))
        except TenantQueueFull as full:
            return ask.refused("tenant_queue_full", str(full))
        return Asked(run=ask.run, due_ms=ask.due_ms)

    def _request(self, ask: AskRun, plan: Plan, given: Any) -> None:
        """
        Raises:
            RunExists: a run of that id is there with another input.
            TenantQueueFull: as many of the tenant's runs wait as may.
        """
        terms, turn_ms = ask.terms, None
        if terms.tenant is not None and self._runtime.store.row(ask.run) is None:
            turn_ms = self._runtime.admission.enter(ask.run, terms.tenant, bounded=True)
        append = people.request(
            ask.run,
            mint(),
            plan,
            given,
            tags=(*terms.tags, schedule_tag(schedule_name(self._stream))),
            priority=terms.priority,
            tenant=terms.tenant,
            turn_ms=turn_ms,
        )
        repeat(self._runtime, append, self._lease)
        if turn_ms is None:
            self._runtime.hints.send_all(append.moves, terms.priority)

    def _plan(self, ask: AskRun) -> Plan:
        """
        The plan of the workflow as it is now.

        Raises:
            WorkflowInvalid: it can't be worked as it is, on any live worker.
            _Elsewhere: it can't be here.
        """
        terms, roster = ask.terms, self._runtime.roster
        code = terms.source or f"workflow {terms.workflow}"
        try:
            plan = compile_flow(
                terms.source or self._definition(ask),
                model=terms.model,
                default_model=terms.default_model,
                changes=self._changed_settings,
            )
        except WorkflowInvalid as invalid:
            roster.note(code, here=False)
            if roster.others_may_carry(code):
                raise _Elsewhere from invalid
            raise
        roster.note(code, here=True)
        return plan

    def _definition(self, ask: AskRun) -> WorkflowDefinition:
        # Reading and checking workflows needs libraries that a worker of runs alone does not.
        from mulligan.schemas.load import checked_definition

        given = self._value(ask.definition) if ask.definition is not None else None
        source = f"schedule {schedule_name(self._stream)!r}"
        return checked_definition(given, source, code_path=ask.terms.code_path)

    def _changed_settings(self, workflow: str) -> dict[str, Any]:
        kept = self._runtime.store.kept_settings(workflow)
        changed: dict[str, Any] = msgspec.json.decode(kept) if kept is not None else {}
        return changed

    def _value(self, payload: Payload) -> Any:
        return self._runtime.cache.value(self._stream, payload)


def _told(error: Exception) -> str:
    """An error in words that are ours: a message of our own, else the name of its class."""
    if isinstance(error, MulliganError):
        return str(error)
    return f"{type(error).__name__} while its workflow was loaded; the worker's log has the stack"
