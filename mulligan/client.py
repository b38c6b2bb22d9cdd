"""
The front door for programs: ask for runs, follow them, decide about them.

    with Client() as client:
        run = client.enqueue("brief.yaml", {"topic": "tea"})
        print(client.result(run))
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mulligan import kept_plan
from mulligan.asked import (
    LONGEST_NAME,
    LONGEST_REASON,
    check_delay,
    check_input,
    check_json,
    check_key,
    check_models,
    check_priority,
    check_run_id,
    check_tags,
    check_version,
    check_window,
    check_words,
)
from mulligan.decisions import answers, people
from mulligan.decisions.fork import fork
from mulligan.errors import InvalidInput, RunFailed, RunUnknown, VersionConflict, WaitTimedOut
from mulligan.events.archived_store import ArchivedStore
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Priority
from mulligan.events.file_archive import FileArchive
from mulligan.events.payload import Payload
from mulligan.events.payload_keys import payload_keys
from mulligan.events.schedules import is_schedule
from mulligan.events.store import Append, EventStore
from mulligan.events.tenants import TenantLimits, TenantList, check_tenant
from mulligan.flow import Flow, compile_flow
from mulligan.projections.advice import why
from mulligan.projections.open_requests import OpenRequest
from mulligan.projections.run import fold
from mulligan.projections.state import RunState
from mulligan.schemas.plan import Plan
from mulligan.settings import Settings, load_settings
from mulligan.trace_context import check_traceparent, current_traceparent
from mulligan.watch import Reading, Watch

if TYPE_CHECKING:
    from pathlib import Path

    from mulligan.actors.admission import Admission
    from mulligan.actors.archiver import Archived, Archiver
    from mulligan.actors.hints import Hints
    from mulligan.events.deltas import Deltas
    from mulligan.schedules import Schedules
    from mulligan.schemas.workflow import WorkflowDefinition

Outcome = Literal["succeeded", "failed", "retry"]
Decision = Literal["accept", "abort", "take_over"]


def _embedded_server(data_dir: Path) -> str:
    """The embedded server's URL; who names a server need not load what starts one."""
    from mulligan.embedded import ensure_server

    return ensure_server(data_dir)


class Client:
    """
    A connection to the log and the queue. Safe for use by threads; `close` it, or use it in `with`.

    Without `MULLIGAN_REDIS_URL` it finds the embedded server of the data directory, or starts it.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings if settings is not None else load_settings()
        url = self.settings.redis_url or _embedded_server(self.settings.data_dir)
        self._archive = FileArchive(self.settings.archive)
        self.store: EventStore = ArchivedStore(
            url,
            self._archive,
            partitions=self.settings.partitions,
            payload_keys=payload_keys(self.settings.payload_keys_text()),
        )
        self.store.check()
        self._url = url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        if "hints" in self.__dict__:
            self.hints.close()
        if "deltas" in self.__dict__:
            self.deltas.close()
        if "admission" in self.__dict__:
            self.admission.close()
        self.store.close()

    @cached_property
    def hints(self) -> Hints:
        """The queue, connected on first use: who only reads needs neither it nor Dramatiq."""
        from mulligan.actors.broker import broker_url_beside, make_broker
        from mulligan.actors.hints import Hints

        return Hints(make_broker(self.settings.broker_url or broker_url_beside(self._url)))

    @cached_property
    def deltas(self) -> Deltas:
        """What models say while they say it, connected on first use; see `docs/operations.md`."""
        from mulligan.events.redis_deltas import RedisDeltas

        return RedisDeltas(self._url, self.store.partitions, self.store.vault)

    @cached_property
    def admission(self) -> Admission:
        """Which runs of tenants may begin, connected on first use."""
        from mulligan.actors.admission import Admission
        from mulligan.actors.calls import caller
        from mulligan.events.redis_slots import RedisSlots

        slots = RedisSlots(self._url)
        return Admission(slots, caller(self.store, lambda task: self.hints.send(task, 0)))

    @cached_property
    def archiver(self) -> Archiver:
        """Who moves ended runs to the archive, made on first use: few need it."""
        from mulligan.actors.archiver import Archiver

        return Archiver(self.store, self._archive)

    @cached_property
    def schedules(self) -> Schedules:
        """Runs that are asked for by the clock (see `docs/schedules.md`)."""
        from mulligan.schedules import Schedules

        return Schedules(self)

    # --- Producers -------------------------------------------------------------------------------

    def enqueue(
        self,
        workflow: Flow,
        input: Any = None,  # noqa: A002 - the field's name
        *,
        run_id: str | None = None,
        tags: tuple[str, ...] = (),
        priority: Priority = 0,
        delay_ms: int = 0,
        model: str | None = None,
        origin_window: str | None = None,
        traceparent: str | None = None,
        tenant: str | None = None,
        told: Callable[[str], None] = kept_plan.warn,
    ) -> str:
        """
        Ask for a run and return its id. With a `run_id` of your own, asking again with the same
        workflow and input is the same run, so that a producer may repeat a call it got no answer
        to. It keeps the plan that it began with; where the workflow or a model has changed since,
        `told` is told so, by default as the warning `PlanKept`.

        Where workers have more to do than they can, all of a run of `priority` -1 goes before what
        has 0, and that before 1. Its agents browse in the window `origin_window` of the browser
        bridge, and see the pages of no other. Its trace links to the span of `traceparent` (W3C
        Trace Context), by default the one that this call is within. It is held to the limits of
        `tenant`, whom it is for, and waits its turn where they are reached.

        Raises:
            WorkflowInvalid, InvalidInput: the workflow, the input or an option can't be used.
            RunExists: the id is taken by a run with another input.
            TenantQueueFull: as many of the tenant's runs wait as may.
        """
        if run_id is not None:
            check_run_id(run_id)
        check_priority(priority)
        check_delay(delay_ms)
        check_window(origin_window)
        if traceparent is not None:
            check_traceparent(traceparent)
        if tenant is not None:
            check_tenant(tenant)
        tags = check_tags(tags)
        check_json(input)
        plan = self.plan(workflow, model=model)
        check_models(plan)
        check_input(plan, input)
        run = run_id if run_id is not None else f"{plan.name}-{secrets.token_hex(6)}"
        turn_ms = None
        if tenant is not None and not delay_ms and (run_id is None or not self.store.row(run)):
            turn_ms = self.admission.enter(run, tenant, bounded=True)
        append = people.request(
            run,
            _op(),
            plan,
            input,
            tags=tags,
            priority=priority,
            delay_ms=delay_ms,
            origin_window=origin_window,
            traceparent=traceparent or current_traceparent(),
            tenant=tenant,
            turn_ms=turn_ms,
        )
        appended = self.store.append(append)
        if not delay_ms and turn_ms is None:  # a message would have it worked at once
            self.hints.send_all(append.moves, priority)
        if appended.repeated:
            self._tell_of_kept(run, plan, told)
        return run

    def _tell_of_kept(self, run: str, plan: Plan, told: Callable[[str], None]) -> None:
        requested = next(self.events(run))
        began = fold(run, [requested]).plan
        difference = kept_plan.kept(run, began, plan) if began is not None else None
        if difference is not None:
            told(difference)

    def fork(self, run: str, at_version: int, *, run_id: str | None = None) -> str:
        """
        Ask for a run that begins as a copy of another's events up to `at_version`, and return its
        id. What had a result by then keeps it; what was under way goes on as if its worker were
        lost. With a `run_id` of your own, asking again is the same fork.

        Raises:
            RunUnknown: there is no such run.
            InvalidInput: the version is none of its own, lies within an append, or nothing would go
                on from there; the message says which would do.
            RunExists: the id is taken by another run.
        """
        check_version(at_version)
        if run_id is not None:
            check_run_id(run_id)
        if run_id is not None:
            check_run_id(run_id)
        events = list(self.events(run))
        state = fold(run, events)
        forked = run_id if run_id is not None else f"{state.workflow}-{secrets.token_hex(6)}"
        append = fork(events, at_version, forked, _op(), partial(self.value, run))
        self._append(append, state.priority)
        return forked

    def plan(self, workflow: Flow, *, model: str | None = None) -> Plan:
        """
        The plan of a workflow as a run asked for now would keep it, with what `change_settings` has
        changed. `model` takes the place of the one in the workflow's settings; an agent that names
        its own keeps it.
        """
        return compile_flow(
            workflow,
            model=model,
            default_model=self.settings.model,
            changes=self.changed_settings,
        )

    def changed_settings(self, workflow: str) -> dict[str, Any]:
        """What people have changed of a workflow's settings."""
        kept = self.store.kept_settings(workflow)
        changed: dict[str, Any] = msgspec.json.decode(kept) if kept is not None else {}
        return changed

    def change_settings(self, workflow: WorkflowDefinition, changes: Mapping[str, Any]) -> None:
        """
        Change a workflow's settings for the runs that are asked for from now on, whoever asks; what
        is under way keeps those that it began with. Changes of before are dropped.

        Raises:
            InvalidInput: these can't be its settings; the message says what and where.
        """
        from pydantic import ValidationError

        try:
            workflow.with_settings(**changes)
        except ValidationError as error:
            raise InvalidInput(
                "; ".join(
                    f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
                )
            ) from None
        data = msgspec.json.encode(dict(changes)) if changes else None
        self.store.keep_settings(workflow.name, data)

    # --- Tenants ---------------------------------------------------------------------------------

    def tenants(self) -> TenantList:
        """The tenants, their limits, and what they take of them."""
        return self.admission.tenants()

    def own_limits(self, tenant: str) -> TenantLimits:
        """A tenant's limits of its own, or those that `*` and `+` stand for."""
        return self.admission.own_limits(tenant)

    def limit_tenant(self, tenant: str, limits: TenantLimits | None) -> None:
        """
        Set a tenant's limits in the place of those it had, for everybody and at once; None: it has
        none of its own. `*` stands for those without, `+` for all tenants together.

        Raises:
            InvalidInput: it can't be a tenant, or all together can't be limited so.
        """
        self.admission.limit(tenant, limits)

    # --- Readers ---------------------------------------------------------------------------------

    def status(self, run: str) -> RunState:
        """
        A run's state now, folded from its log.

        Raises:
            RunUnknown: there is no such run.
        """
        state = fold(run, self.store.read(run) if not is_schedule(run) else [])
        if not state.version:
            raise RunUnknown(run)
        return state

    def events(self, run: str, after: int = 0, *, follow: bool = False) -> Iterator[Envelope]:
        """
        A run's events above version `after`. With `follow`, wait for more until the run has ended.

        Raises:
            RunUnknown: there is no such run.
            RunSetBack: while it was followed, the server lost events that were read.
        """
        reading = self.reading(run, after, follow=follow)
        while reading.more:
            yield from reading.page()

    def reading(self, run: str, after: int = 0, *, follow: bool = False) -> Reading:
        """The same, a page at a time, for who has more than that to wait for."""
        return Reading(self.store, run, after, follow=follow)

    def wait(
        self,
        run: str,
        *,
        timeout_s: float | None = None,
        seen: Callable[[Envelope], None] = lambda event: None,
    ) -> RunState:
        """
        Follow a run until it has ended or is paused for a person, and return its state; `seen` is
        told each event.

        Raises:
            RunUnknown: there is no such run.
            WaitTimedOut: it still goes on after `timeout_s`.
        """
        watch = Watch(self.store, run)
        deadline_s = time.monotonic() + timeout_s if timeout_s is not None else None
        while not watch.over:
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise WaitTimedOut(
                    f"run {run!r} is still {watch.state.status} after {timeout_s:g} s"
                )
            news = watch.look()
            for event in news:
                seen(event)
            if news and not watch.over:
                time.sleep(watch.pause_s)
        return watch.state

    def result(self, run: str, *, timeout_s: float | None = None) -> Any:
        """
        A run's output, waited for.

        Raises:
            RunFailed: it failed, was cancelled, or is paused; the message says why.
            RunUnknown, WaitTimedOut: as in `wait`.
        """
        return self.value(run, output_of(self.wait(run, timeout_s=timeout_s)))

    def value(self, run: str, payload: Payload) -> Any:
        """The value of a payload of a run's events."""
        if payload.inline:
            return payload.value
        return msgspec.json.decode(self.store.payload(run, payload.digest))

    # --- Operators -------------------------------------------------------------------------------

    def cancel(self, run: str, reason: str = "") -> bool:
        """Cancel a run; False: it had ended, or was asked to before."""
        check_words("the reason", reason, LONGEST_REASON)
        state = self.status(run)
        append = people.cancel(state, _op(), reason)
        if append is not None:
            self._append(append, state.priority)
        return append is not None

    def resume(self, run: str, node: str | None = None) -> None:
        """
        Let paused agents go on with a fresh allowance.

        Raises:
            InvalidInput: nothing that a resume could help is paused there.
        """
        self._decide(run, lambda state: people.resume(state, _op(), node))

    def redrive(self, run: str) -> None:
        """
        Wake what is parked in a run: what kept killing its workers, or found no worker with its
        code.

        Raises:
            InvalidInput: nothing is parked there.
        """
        parked = people.parked_in(self.status(run))
        for first in range(0, max(len(parked), 1), people.REDRIVEN):
            self._redrive(run, parked[first : first + people.REDRIVEN])

    def _redrive(self, run: str, nodes: list[str]) -> None:
        self._decide(run, lambda state: people.redrive(state, _op(), nodes))

    def reconcile(
        self, run: str, call_id: str, outcome: Outcome, *, by: str = "operator", result: Any = None
    ) -> None:
        """
        Say what became of an effect whose outcome is unknown: it `succeeded` (with the `result` to
        tell the model), it `failed`, or it shall be tried again. For a function node that may not
        be repeated, `call_id` is the node, and `result` its output.

        Raises:
            InvalidInput: there is no such call, or its outcome is known.
        """
        check_words("by", by, LONGEST_NAME)
        check_json(result)
        self._decide(
            run,
            lambda state: people.reconcile(state, _op(), call_id, outcome, by=by, result=result),
        )

    def decide(
        self,
        run: str,
        decision: Decision,
        *,
        draft: Any = None,
        node: str | None = None,
        by: str = "operator",
    ) -> None:
        """
        Decide on what a repair loop could not: `accept` its best draft, `abort`, or `take_over`
        with a `draft` of your own, which its gates judge like any other.

        Raises:
            InvalidInput: no decision is asked for there, several are and `node` names none, or the
                draft is of another kind than the loop's.
        """
        check_words("by", by, LONGEST_NAME)
        self._decide(
            run,
            lambda state: people.decide(
                state,
                _op(),
                decision,
                by=by,
                draft=draft,
                node=node,
                value_of=partial(self.value, run),
            ),
        )

    def question(
        self, run: str, *, node: str | None = None, request: str | None = None
    ) -> OpenRequest:
        """
        What an agent asks: the `request` of that id, or the only question of the run, or of a node.

        Raises:
            InvalidInput: nothing is asked there, or several things; the message says what.
        """
        state = self.status(run)
        return answers.asked(state, answers.request_id(state, node, request))[0]

    def answer(
        self,
        run: str,
        answer: answers.Given,
        *,
        node: str | None = None,
        request: str | None = None,
        by: str = "operator",
    ) -> bool:
        """
        Answer what an agent asks, and let it go on: with a text, or, to questions with options,
        with an answer for each id, a text or `{"option": label}`. Where several wait, name the
        `node` or the `request`. False: it was answered so before.

        Raises:
            InvalidInput: nothing is asked there, it was answered otherwise, or this is no answer to
                what is asked; the message says what would be.
        """
        check_words("by", by, LONGEST_NAME)
        asked = self.question(run, node=node, request=request).id
        return self._tell(run, lambda state: people.answer(state, _op(), asked, answer, by=by))

    def approve(self, run: str, call_id: str, *, by: str = "operator") -> bool:
        """
        Let a call be run that waits for approval; it is run once. False: it was approved before.

        Raises:
            InvalidInput: there is no such call, it does not wait for approval, or was denied.
        """
        check_words("by", by, LONGEST_NAME)
        return self._tell(run, lambda state: people.approve(state, _op(), call_id, by=by))

    def deny(self, run: str, call_id: str, reason: str = "", *, by: str = "operator") -> bool:
        """
        Refuse a call that waits for approval: it is never started, and its agent is told the
        `reason` and goes on. False: it was denied before.

        Raises:
            InvalidInput: there is no such call, it does not wait for approval, or was approved.
        """
        check_words("the reason", reason, LONGEST_REASON)
        check_words("by", by, LONGEST_NAME)
        return self._tell(run, lambda state: people.deny(state, _op(), call_id, reason, by=by))

    def signal(
        self,
        run: str,
        name: str,
        data: Any = None,
        *,
        key: str | None = None,
        by: str = "operator",
    ) -> bool:
        """
        Send a run a signal that a node of it waits for, or will: its data are that node's output.
        With a `key` of your own it may be sent again, and is one signal. False: it was received
        before.

        Raises:
            InvalidInput: the run has ended, no node of it waits for a signal of that name, the data
                do not fit its schema, or the key is that of another signal.
        """
        check_words("by", by, LONGEST_NAME)
        check_key(key)
        check_json(data, "what the signal tells")
        key = key if key is not None else secrets.token_hex(8)
        return self._decide(run, lambda state: people.signal(state, _op(), name, key, data, by=by))

    def archive(self, runs: Iterable[str]) -> Archived:
        """
        Move ended runs out of the log's server into compressed files (`MULLIGAN_ARCHIVE_DIR`), from
        which all readers read them as before. Repeated, it finishes what was left half done.

        Raises:
            ArchiveUnfit: the files can't be written or do not read back; what they were to hold
                stays on the server.
        """
        return self.archiver.archive(runs)

    def _tell(self, run: str, say: Callable[[RunState], Append | None]) -> bool:
        """
        Say something of which the first word counts; False: it was said before. Of two at once the
        log keeps both and the folds the first, so whoever came second finds out by saying it again.
        """
        state = self.status(run)
        append = say(state)
        if append is None:
            return False
        self._append(append, state.priority)
        say(self.status(run))
        return True

    def _decide(self, run: str, decide: Callable[[RunState], Append | None]) -> bool:
        """
        A decision on what was seen, seen again if the run moved on. False: there is none to take.
        """
        while True:
            state = self.status(run)
            append = decide(state)
            if append is None:
                return False
            try:
                self._append(append, state.priority)
            except VersionConflict:
                continue
            return True

    def _append(self, append: Append, priority: Priority) -> None:
        self.store.append(append)
        self.hints.send_all(append.moves, priority)


def output_of(state: RunState) -> Payload:
    """
    A run's output.

    Raises:
        RunFailed: it has none; the message says why.
    """
    if state.output is None:
        raise RunFailed(state.run, state.status, why(state))
    return state.output


def _op() -> str:
    return secrets.token_urlsafe(12)
