"""What all runs used together."""

from __future__ import annotations

from fastapi import APIRouter

from mulligan.projections.usage import UsageTotals, totals
from mulligan.web.answers import Json, gives
from mulligan.web.surroundings import Around

router = APIRouter(tags=["usage"], default_response_class=Json)


@router.get("/usage", responses=gives(UsageTotals))
def usage(around: Around) -> Json:
    """What the requests of all runs used, as providers reported it."""
    return Json(totals(around.index.usages()))
