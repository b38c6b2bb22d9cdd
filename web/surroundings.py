"""
What the routes of an application work with, and how each is given it.
"""

from __future__ import annotations

from typing import Annotated, cast

import msgspec
from anyio import CapacityLimiter
from fastapi import Depends, Path
from starlette.requests import HTTPConnection

from mulligan.client import Client
from mulligan.web.access import Access
from mulligan.web.catalogue import Catalogue
from mulligan.web.run_index import RunIndex
from mulligan.web.tails import Tails


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What lives as long as the application."""

    client: Client
    access: Access
    catalogue: Catalogue
    browsing: CapacityLimiter
    tails: Tails
    index: RunIndex


def surroundings_of(request: HTTPConnection) -> Surroundings:
    """Those of the application that a request came to."""
    return cast(Surroundings, request.app.state.surroundings)


Around = Annotated[Surroundings, Depends(surroundings_of)]
RunId = Annotated[str, Path(pattern=r"^[^\s/|{}]{1,200}$", description="A run's id.")]
