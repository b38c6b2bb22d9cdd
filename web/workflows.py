"""Workflows that may be asked for."""

from __future__ import annotations

from fastapi import APIRouter

from mulligan.web.answers import Json, gives
from mulligan.web.catalogue import WorkflowList
from mulligan.web.surroundings import Around

router = APIRouter(prefix="/workflows", tags=["workflows"], default_response_class=Json)


@router.get("", responses=gives(WorkflowList))
def list_workflows(around: Around) -> Json:
    """The workflows that may be asked for."""
    return Json(around.catalogue.list())
