"""
The application: a client's runs over HTTP.

    app = create_app(client, Access())          # then: uvicorn.run(app), or `mulligan serve`
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog
from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from mulligan._version import __version__
from mulligan.client import Client
from mulligan.errors import MulliganError
from mulligan.web import (
    browsing,
    decisions,
    health,
    metrics,
    page_files,
    runs,
    schedules,
    sessions,
    streams,
    tenants,
    totals,
    workflows,
)
from mulligan.web.access import Access
from mulligan.web.catalogue import Catalogue
from mulligan.web.guard import Guard
from mulligan.web.openapi import describe
from mulligan.web.problems import of_error, of_http, of_request
from mulligan.web.run_index import RunIndex
from mulligan.web.surroundings import Surroundings
from mulligan.web.tails import Tails

log = structlog.get_logger(__name__)

ROUTERS = (
    health.router,
    sessions.router,
    runs.router,
    streams.router,
    decisions.router,
    schedules.router,
    workflows.router,
    tenants.router,
    totals.router,
    metrics.router,
    browsing.router,
    page_files.router,
)


def create_app(client: Client, access: Access, catalogue: Catalogue | None = None) -> FastAPI:
    """
    An application over a client, which stays the caller's to close. `catalogue` are the workflows
    that may be asked for; by default those that ship.
    """
    app = FastAPI(
        title="mulligan", version=__version__, docs_url=None, redoc_url=None, lifespan=_living
    )
    app.state.surroundings = Surroundings(
        client=client,
        access=access,
        catalogue=catalogue or Catalogue(),
        browsing=CapacityLimiter(browsing.MOST_AT_ONCE),
        tails=Tails(client),
        index=RunIndex(client.store, _told),
    )
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(MulliganError, of_error)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_middleware(Guard, access=access)
    app.openapi = partial(describe, app, access)  # type: ignore[method-assign]
    return app


def _told(sentence: str) -> None:
    log.warning("rows_told", told=sentence)


@asynccontextmanager
async def _living(app: FastAPI) -> AsyncIterator[None]:
    """While it takes requests, somebody follows the log for all who want to be told."""
    tails: Tails = app.state.surroundings.tails
    tails.start()
    yield
    await tails.stop()
