"""What all runs used together."""

from __future__ import annotations

from fastapi import APIRouter

from mulligan.projections.projector import USAGE, Projector, read_rows
from mulligan.projections.usage import UsageTotals, totals
from mulligan.web.answers import Json, gives
from mulligan.web.surroundings import Around

router = APIRouter(tags=["usage"], default_response_class=Json)


@router.get("/usage", responses=gives(UsageTotals))
def usage(around: Around) -> Json:
    """What the requests of all runs used, as providers reported it."""
    store = around.client.store
    Projector(store).catch_up()
    return Json(totals(read_rows(store, USAGE)))
