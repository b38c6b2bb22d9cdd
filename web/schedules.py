"""Schedules: created, looked at, paused, resumed, removed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path

from mulligan.replies import ScheduleChanged, Triggered
from mulligan.schedule_views import ScheduleList, ScheduleView
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import NewSchedule, PauseSchedule, Trigger, WhoSays
from mulligan.web.surroundings import Around

router = APIRouter(prefix="/schedules", tags=["schedules"], default_response_class=Json)

ScheduleName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="A schedule's name.")
]

NO_REASON = PauseSchedule()
ANYBODY = WhoSays()
NO_KEY = Trigger()


@router.get("", responses=gives(ScheduleList))
def list_schedules(around: Around) -> Json:
    """All schedules, by name."""
    return Json(around.client.schedules.list())


@router.post("", responses=gives(ScheduleChanged))
def create(around: Around, body: NewSchedule) -> Json:
    """Have runs of a workflow asked for at the moments of a cron expression."""
    changed = around.client.schedules.create(
        body.name,
        around.catalogue.definition(body.workflow),
        body.input,
        cron=body.cron,
        timezone=body.timezone,
        model=body.model,
        tags=tuple(body.tags),
        priority=body.priority,
        tenant=body.tenant,
        overlap=body.overlap,
        catch_up=body.catch_up,
        replace=body.replace,
        by=body.by,
    )
    return Json(ScheduleChanged(schedule=body.name, action="create", changed=changed))


@router.get("/{name}", responses=gives(ScheduleView))
def show(around: Around, name: ScheduleName) -> Json:
    """Its terms, when it is due next, and what its latest firings came to."""
    return Json(around.client.schedules.show(name))


@router.post("/{name}/pause", responses=gives(ScheduleChanged))
def pause(
    around: Around, name: ScheduleName, body: Annotated[PauseSchedule, Body()] = NO_REASON
) -> Json:
    """Let it fire no more until it is resumed."""
    changed = around.client.schedules.pause(name, body.reason, by=body.by)
    return Json(ScheduleChanged(schedule=name, action="pause", changed=changed))


@router.post("/{name}/resume", responses=gives(ScheduleChanged))
def resume(around: Around, name: ScheduleName, body: Annotated[WhoSays, Body()] = ANYBODY) -> Json:
    """Let it fire again; what would have been due meanwhile is not made up for."""
    changed = around.client.schedules.resume(name, by=body.by)
    return Json(ScheduleChanged(schedule=name, action="resume", changed=changed))


@router.post("/{name}/remove", responses=gives(ScheduleChanged))
def remove(around: Around, name: ScheduleName, body: Annotated[WhoSays, Body()] = ANYBODY) -> Json:
    """End it; the runs that it asked for stay as they are."""
    changed = around.client.schedules.remove(name, by=body.by)
    return Json(ScheduleChanged(schedule=name, action="remove", changed=changed))


@router.post("/{name}/run-now", status_code=202, responses=gives(Triggered, status=202))
def run_now(around: Around, name: ScheduleName, body: Annotated[Trigger, Body()] = NO_KEY) -> Json:
    """Have it ask for a run now; the run is there once a worker has asked for it."""
    run = around.client.schedules.run_now(name, key=body.key, by=body.by)
    return Json(Triggered(schedule=name, run=run), 202)
