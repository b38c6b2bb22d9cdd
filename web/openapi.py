"""The description that is served: that of the framework, with the shapes of answers."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from mulligan._version import __version__
from mulligan.events.tenants import TenantList
from mulligan.projections.chat import Chat
from mulligan.projections.recovery import RecoveryView
from mulligan.projections.repair_log import RepairLogs
from mulligan.projections.run_list import RunList
from mulligan.projections.run_view import RunResult, RunView
from mulligan.projections.trace import Trace
from mulligan.projections.usage import RunUsage, UsageTotals
from mulligan.replies import (
    Answered,
    Decided,
    Done,
    Enqueued,
    Forked,
    ScheduleChanged,
    Signalled,
    Triggered,
)
from mulligan.schedule_views import ScheduleList, ScheduleView
from mulligan.web.access import OPEN_PATHS, Access
from mulligan.web.answers import REF
from mulligan.web.browsing import WebUsed
from mulligan.web.catalogue import WorkflowList
from mulligan.web.health import Health
from mulligan.web.problems import Problem
from mulligan.web.sessions import Session
from mulligan.web.streams import RECORDS
from mulligan.web.workflows import WorkflowSettings

SHAPES = (
    Answered,
    Chat,
    Decided,
    Done,
    Enqueued,
    Forked,
    Health,
    Problem,
    RecoveryView,
    RepairLogs,
    RunList,
    RunResult,
    RunUsage,
    RunView,
    ScheduleChanged,
    ScheduleList,
    ScheduleView,
    Signalled,
    Session,
    TenantList,
    Trace,
    Triggered,
    UsageTotals,
    WebUsed,
    WorkflowList,
    WorkflowSettings,
)
"""Every shape that a route says it gives."""

DESCRIPTION = """\
Runs of LLM workflows: asked for, watched and decided about. Answers have the shapes that commands
print with `--json`; what can't be done is told as problem details (RFC 9457).
"""


def describe(app: FastAPI, access: Access) -> dict[str, Any]:
    """The OpenAPI description of an application; made once."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title="mulligan", version=__version__, description=DESCRIPTION, routes=app.routes
        )
        _, shapes = msgspec.json.schema_components((*SHAPES, *RECORDS), ref_template=REF)
        schema.setdefault("components", {}).setdefault("schemas", {}).update(shapes)
        if access.needs_token:
            _add_security(schema)
        app.openapi_schema = schema
    return app.openapi_schema


def _add_security(schema: dict[str, Any]) -> None:
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in schema["paths"].items():
        for operation in methods.values() if path not in OPEN_PATHS else ():
            operation["security"] = [{"token": []}]
