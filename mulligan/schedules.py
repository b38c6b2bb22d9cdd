"""
Schedules, as programs create and look at them: `client.schedules`.

    client.schedules.create("weekly", "report", {"week": "last"}, cron="0 6 * * 1",
                            timezone="Europe/Berlin")
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from mulligan.asked import (
    LONGEST_NAME,
    LONGEST_REASON,
    MOST_TAGS,
    check_input,
    check_json,
    check_models,
    check_priority,
    check_tags,
    check_words,
)
from mulligan.decisions import scheduling
from mulligan.decisions.cron import check_cron
from mulligan.errors import InvalidInput, RunExists, RunUnknown, ScheduleUnknown, VersionConflict
from mulligan.events.facts import CatchUpPolicy, OverlapPolicy, Priority, ScheduleTerms
from mulligan.events.payload import Payload
from mulligan.events.schedules import schedule_name, schedule_stream
from mulligan.events.store import Append
from mulligan.events.tenants import check_tenant
from mulligan.flow import Flow
from mulligan.projections.schedule import ScheduleState, fold
from mulligan.projections.state import RunStatus
from mulligan.schedule_views import ScheduleList, ScheduleView, row, view
from mulligan.schemas.plan import Plan

if TYPE_CHECKING:
    from mulligan.client import Client
    from mulligan.schemas.workflow import WorkflowDefinition


class Schedules:
    """The schedules of a client's log. Safe for use by threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._store = client.store

    def create(
        self,
        name: str,
        workflow: Flow,
        input: Any = None,  # noqa: A002 - the field's name
        *,
        cron: str,
        timezone: str = "UTC",
        model: str | None = None,
        tags: tuple[str, ...] = (),
        priority: Priority = 0,
        tenant: str | None = None,
        overlap: OverlapPolicy = "skip",
        catch_up: CatchUpPolicy = "last",
        replace: bool = False,
        by: str = "operator",
    ) -> bool:
        """
        Have runs of a workflow asked for at the moments of `cron`, by the clocks of `timezone`.
        `overlap` says what becomes of a moment while a run of an earlier one goes on, `catch_up`
        which of those are made up for that passed while no worker was up (docs/schedules.md).

        A workflow that is named as `module:attribute`, or ships, is loaded anew by the worker that
        fires; any other is kept as it is now. With `replace` these terms take the place of others.
        False: it is there by these terms already.

        Raises:
            WorkflowInvalid, InvalidInput: the workflow, the input or a term can't be used.
            ScheduleExists: it is there by other terms, and `replace` is not said.
        """
        scheduling.check_schedule_name(name)
        check_cron(cron, timezone)
        _check_choice("overlap", overlap, OverlapPolicy)
        _check_choice("catch_up", catch_up, CatchUpPolicy)
        check_priority(priority)
        if tenant is not None:
            check_tenant(tenant)
        check_words("by", by, LONGEST_NAME)
        tags = check_tags(tags)
        if len(tags) == MOST_TAGS:
            raise InvalidInput(f"{len(tags)} tags: a schedule's runs can have {MOST_TAGS - 1}")
        check_json(input)
        plan, source, definition = self._kept(workflow, model)
        check_models(plan)
        check_input(plan, input)
        terms = ScheduleTerms(
            cron=" ".join(cron.split()),
            timezone=timezone,
            workflow=plan.name,
            source=source,
            code_path=definition.code_path if definition is not None else (),
            model=model,
            default_model=self._client.settings.model,
            tags=tags,
            priority=priority,
            tenant=tenant,
            overlap=overlap,
            catch_up=catch_up,
        )
        given, kept = Payload.of(input), _payload(definition)
        return self._decide(
            name,
            lambda state: scheduling.create(
                state, _op(), terms, given, kept, replace=replace, by=by
            ),
        )

    def _kept(
        self, workflow: Flow, model: str | None
    ) -> tuple[Plan, str | None, WorkflowDefinition | None]:
        """The plan now, and what a later one is made of: a name, or a definition."""
        # Reading workflows needs libraries that who only looks at schedules should not pay for.
        from mulligan.schemas.load import is_file, load_workflow
        from mulligan.schemas.workflow import WorkflowDefinition

        if isinstance(workflow, Plan):
            raise InvalidInput("a schedule needs the workflow itself: its plan is made at each run")
        if isinstance(workflow, str) and not is_file(workflow):
            return self._client.plan(workflow, model=model), workflow, None
        plan = self._client.plan(workflow, model=model)
        if isinstance(workflow, str):
            return plan, None, load_workflow(workflow)
        definition = workflow if isinstance(workflow, WorkflowDefinition) else workflow.definition()
        return plan, None, definition

    def list(self) -> ScheduleList:
        """All schedules, by name."""
        names = sorted({schedule_name(stream) for stream in self._store.schedules()})
        states = [self._state(name) for name in names]
        shown = [row(one, _now_ms(), self._status) for one in states if one.status != "removed"]
        return ScheduleList(schedules=shown)

    def show(self, name: str) -> ScheduleView:
        """
        A schedule: its terms, when it is due next, what its latest firings came to.

        Raises:
            ScheduleUnknown: there is no such schedule.
        """
        scheduling.check_schedule_name(name)
        state = self._state(name)
        if state.status == "removed" or state.input is None:
            raise ScheduleUnknown(name)
        given = self._client.value(schedule_stream(name), state.input)
        return view(state, _now_ms(), given, self._status)

    def pause(self, name: str, reason: str = "", *, by: str = "operator") -> bool:
        """
        Let it fire no more until it is resumed. False: it is paused.

        Raises:
            ScheduleUnknown: there is no such schedule.
        """
        check_words("the reason", reason, LONGEST_REASON)
        check_words("by", by, LONGEST_NAME)
        return self._decide(name, lambda state: scheduling.pause(state, _op(), reason, by=by))

    def resume(self, name: str, *, by: str = "operator") -> bool:
        """
        Let it fire again; what would have been due meanwhile is not made up for. False: it does.

        Raises:
            ScheduleUnknown: there is no such schedule.
        """
        check_words("by", by, LONGEST_NAME)
        return self._decide(name, lambda state: scheduling.resume(state, _op(), by=by))

    def remove(self, name: str, *, by: str = "operator") -> bool:
        """
        End it; its runs stay as they are. False: it was removed before.

        Raises:
            ScheduleUnknown: there never was one.
        """
        check_words("by", by, LONGEST_NAME)
        return self._decide(name, lambda state: scheduling.remove(state, _op(), by=by))

    def run_now(self, name: str, *, key: str | None = None, by: str = "operator") -> str:
        """
        Have it ask for a run now, whatever else goes on, and return the run's id; a worker asks for
        it. With a `key` of your own, asking again is the same run.

        Raises:
            ScheduleUnknown: there is no such schedule.
            InvalidInput: the key is none, or too many runs wait for a worker.
        """
        scheduling.check_schedule_name(name)
        check_words("by", by, LONGEST_NAME)
        now_ms = _now_ms()
        run = scheduling.asked_run_id(name, key, now_ms, secrets.token_hex(3))
        if self._store.row(run) is None:
            self._decide(name, lambda state: scheduling.run_now(state, _op(), run, now_ms, by=by))
        return run

    def _decide(self, name: str, decide: Callable[[ScheduleState], Append | None]) -> bool:
        """A decision on what was seen, seen again if it moved on. False: there is none to take."""
        scheduling.check_schedule_name(name)
        while True:
            append = decide(self._state(name))
            if append is None:
                return False
            try:
                self._store.append(append)
            except (VersionConflict, RunExists):
                continue
            self._client.hints.send_all(append.moves)
            return True

    def _state(self, name: str) -> ScheduleState:
        return fold(name, self._store.read(schedule_stream(name)))

    def _status(self, run: str) -> RunStatus | None:
        try:
            return self._client.status(run).status
        except RunUnknown:
            return None


def _check_choice(what: str, given: object, choices: Any) -> None:
    known = get_args(choices)
    if given not in known:
        raise InvalidInput(f"{what} {ascii(given)[:80]} is none: use {' or '.join(known)}")


def _payload(definition: WorkflowDefinition | None) -> Payload | None:
    if definition is None:
        return None
    return Payload.of(definition.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _now_ms() -> int:
    return int(time.time() * 1_000)


def _op() -> str:
    return secrets.token_urlsafe(12)
