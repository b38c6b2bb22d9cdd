"""Tenants: their limits, and what they take of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from mulligan.events.tenants import TenantLimits, TenantList
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import LimitsChange
from mulligan.web.surroundings import Around

router = APIRouter(prefix="/tenants", tags=["tenants"], default_response_class=Json)

Name = Annotated[
    str,
    Path(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63}|\*|\+)$",
        description="A tenant; `*` stands for those without limits, `+` for all together.",
    ),
]


@router.get("", responses=gives(TenantList))
def list_tenants(around: Around) -> Json:
    """The tenants, their limits, and what they take of them."""
    return Json(around.client.tenants())


@router.put("/{tenant}", responses=gives(TenantList))
def change_limits(around: Around, tenant: Name, body: LimitsChange) -> Json:
    """Set a tenant's limits in the place of those it had; they hold at once, for all workers."""
    around.client.limit_tenant(tenant, TenantLimits(**body.model_dump()))
    return Json(around.client.tenants())
