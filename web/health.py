"""Whether the server lives, and whether it can do anything."""

from __future__ import annotations

from typing import Literal

import msgspec
from fastapi import APIRouter

from mulligan.web.answers import Json, gives
from mulligan.web.surroundings import Around

router = APIRouter(tags=["health"], default_response_class=Json)


class Health(msgspec.Struct, kw_only=True):
    """`warnings` are what a person should know of the log's server."""

    kind: Literal["health"] = "health"
    status: Literal["ok"] = "ok"
    warnings: list[str] = []


@router.get("/healthz", responses=gives(Health))
async def healthz() -> Json:
    """The process answers."""
    return Json(Health())


@router.get("/readyz", responses=gives(Health))
def readyz(around: Around) -> Json:
    """The log's server answers and is fit for a log; else 503."""
    return Json(Health(warnings=around.client.store.check()))
