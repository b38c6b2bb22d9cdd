"""Runs: asked for, listed, looked at."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from msgspec import UNSET
from starlette.responses import Response

from mulligan.conversation import chat_of
from mulligan.errors import EventUnreadable, InvalidInput
from mulligan.moments import parse_moment
from mulligan.projections import recovery, repair_log, trace, usage
from mulligan.projections.chat import Chat
from mulligan.projections.recovery import RecoveryView
from mulligan.projections.repair_log import RepairLogs
from mulligan.projections.run_list import DEFAULT_LIMIT, Filter, RunList
from mulligan.projections.run_view import RunResult, RunView, result_view, view
from mulligan.projections.state import RunStatus
from mulligan.projections.trace import Trace
from mulligan.projections.usage import RunUsage
from mulligan.replies import Enqueued, Forked
from mulligan.trace_context import received_traceparent
from mulligan.watch import require
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import Fork, NewRun
from mulligan.web.problems import problem
from mulligan.web.surroundings import Around, RunId

MOST_LISTED = 1_000

router = APIRouter(tags=["runs"], default_response_class=Json)

Moment = Annotated[str, Query(max_length=100, description="30m, 2h, 7d ago, or a time of ISO 8601")]


@router.post("/runs", status_code=202, responses=gives(Enqueued, status=202))
def enqueue(
    around: Around,
    body: NewRun,
    traceparent: Annotated[str | None, Header(description="Its trace links to that span.")] = None,
) -> Json:
    """Ask for a run. With a `run_id` of your own it may be asked for again."""
    told: list[str] = []
    run = around.client.enqueue(
        around.catalogue.definition(body.workflow),
        body.input,
        run_id=body.run_id,
        tags=tuple(body.tags),
        priority=body.priority,
        delay_ms=body.delay_ms,
        model=body.model,
        origin_window=body.origin_window,
        traceparent=received_traceparent(traceparent),
        tenant=body.tenant,
        told=told.append,
    )
    return Json(Enqueued(run=run, kept=told[0] if told else UNSET), 202)


@router.get("/runs", responses=gives(RunList))
def list_runs(
    around: Around,
    status: Annotated[list[RunStatus], Query(description="May be given again.")] = [],  # noqa: B006 - never changed
    workflow: Annotated[str | None, Query(max_length=200)] = None,
    tag: Annotated[list[str], Query(description="Runs that have them all.")] = [],  # noqa: B006
    tenant: Annotated[str | None, Query(max_length=64)] = None,
    since: Moment | None = None,
    until: Moment | None = None,
    after: Annotated[str | None, Query(max_length=300, description="`next` of a list.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = DEFAULT_LIMIT,
) -> Json:
    """Runs, newest first."""
    wanted = Filter(
        statuses=tuple(status),
        workflow=workflow,
        tags=tuple(tag),
        tenant=tenant,
        since_ms=_moment("since", since),
        until_ms=_moment("until", until),
    )
    return Json(around.index.page(wanted, limit, after))


@router.get("/runs/{run}", responses=gives(RunView))
def show(around: Around, run: RunId) -> Json:
    """A run now, with all that waits for people."""
    return Json(view(around.client.status(run), partial(around.client.value, run)))


@router.get("/runs/{run}/result", responses=gives(RunResult))
def result(around: Around, run: RunId) -> Json:
    """The same with its output, null if it has none."""
    return Json(result_view(around.client.status(run), partial(around.client.value, run)))


@router.get("/runs/{run}/trace", responses=gives(Trace))
def show_trace(around: Around, run: RunId) -> Json:
    """What happened, step by step."""
    return Json(trace.fold(run, around.client.events(run)))


@router.get("/runs/{run}/chat", responses=gives(Chat))
def show_chat(around: Around, run: RunId) -> Json:
    """What was said: prompts, answers, calls and their results."""
    return Json(chat_of(around.client, run))


@router.get("/runs/{run}/recovery", responses=gives(RecoveryView))
def show_recovery(around: Around, run: RunId) -> Json:
    """The allowances, what they were spent on, and what can be done now."""
    return Json(recovery.fold(run, around.client.events(run)))


@router.get("/runs/{run}/repair-log", responses=gives(RepairLogs))
def show_repair_log(around: Around, run: RunId) -> Json:
    """The rounds of repair: level, score, cost, edits."""
    client = around.client
    return Json(repair_log.fold(run, client.events(run), partial(client.value, run)))


@router.get("/runs/{run}/usage", responses=gives(RunUsage))
def show_usage(around: Around, run: RunId) -> Json:
    """Tokens and cost, as providers reported them."""
    return Json(usage.fold(run, around.client.events(run)))


@router.get("/runs/{run}/values/{digest}", responses=gives())
def value(
    around: Around, run: RunId, digest: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
) -> Response:
    """A large value that the run's events name by its digest."""
    require(around.client.store, run)
    try:
        stored = around.client.store.payload(run, digest)
    except EventUnreadable as error:
        return problem(404, "value_unknown", str(error))
    return Response(stored, media_type=Json.media_type)


@router.post("/runs/{run}/fork", status_code=202, responses=gives(Forked, status=202))
def fork(around: Around, run: RunId, body: Fork) -> Json:
    """Begin a new run as a copy of this one's first events."""
    forked = around.client.fork(run, body.at_version, run_id=body.run_id)
    return Json(Forked(run=forked, parent=run, at_version=body.at_version), 202)


def _moment(name: str, text: str | None) -> int | None:
    try:
        return parse_moment(text) if text is not None else None
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from None
