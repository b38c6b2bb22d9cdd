"""
A producer in a web application.

    pip install fastapi uvicorn
    uvicorn web_producer:app

The caller names its order, and the run is named after that: a request that is sent again, since its
answer was lost, finds the run that the first one began.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, Field

from mulligan import AsyncClient
from mulligan.errors import RunExists, RunUnknown, StoreFull, StoreUnavailable

WORKFLOW = str(Path(__file__).parent / "greeting.yaml")
Order = Annotated[str, PathParameter(pattern=r"^[a-z0-9-]{1,64}$")]


class Greeting(BaseModel):
    """What to greet."""

    name: str = Field(max_length=200)


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """One client for the whole life of the application."""
    async with AsyncClient() as client:
        app.state.mulligan = client
        yield


app = FastAPI(lifespan=connected)


@app.put("/greetings/{order}", status_code=202)
async def greet(order: Order, greeting: Greeting, request: Request) -> dict[str, str]:
    """Ask for a greeting; asking again with the same body changes nothing."""
    client: AsyncClient = request.app.state.mulligan
    try:
        run = await client.enqueue(WORKFLOW, greeting.model_dump(), run_id=f"greeting-{order}")
    except RunExists:
        raise HTTPException(409, "this order is another greeting") from None
    except (StoreUnavailable, StoreFull):
        raise HTTPException(503, "not now; send it again", {"Retry-After": "5"}) from None
    return {"run": run}


@app.get("/greetings/{order}")
async def greeting(order: Order, request: Request) -> dict[str, Any]:
    """How far it is, and the greeting once it is there."""
    client: AsyncClient = request.app.state.mulligan
    try:
        state = await client.status(f"greeting-{order}")
    except RunUnknown:
        raise HTTPException(404, "no such order") from None
    done = state.status == "completed"
    return {"status": state.status, "result": await client.result(state.run) if done else None}
