"""What people may do to a run."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Body

from mulligan.replies import Answered, Decided, Done, Signalled
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import (
    Answer,
    Approve,
    Cancel,
    Chosen,
    Decide,
    Deny,
    Reconcile,
    Resume,
    Signal,
)
from mulligan.web.surroundings import Around, RunId

router = APIRouter(prefix="/runs/{run}", tags=["decisions"], default_response_class=Json)

NO_REASON = Cancel()
ALL_NODES = Resume()


@router.post("/cancel", responses=gives(Done))
def cancel(around: Around, run: RunId, body: Annotated[Cancel, Body()] = NO_REASON) -> Json:
    """Start nothing new, await the tools that run, and end the run."""
    changed = around.client.cancel(run, body.reason)
    return Json(Done(run=run, action="cancel", changed=changed))


@router.post("/resume", responses=gives(Done))
def resume(around: Around, run: RunId, body: Annotated[Resume, Body()] = ALL_NODES) -> Json:
    """Let paused agents go on with a fresh allowance."""
    around.client.resume(run, body.node)
    return Json(Done(run=run, action="resume", changed=True))


@router.post("/redrive", responses=gives(Done))
def redrive(around: Around, run: RunId) -> Json:
    """Let what is parked go on."""
    around.client.redrive(run)
    return Json(Done(run=run, action="redrive", changed=True))


@router.post("/answer", responses=gives(Answered))
def answer(around: Around, run: RunId, body: Answer) -> Json:
    """Answer what an agent asks, and let it go on."""
    client = around.client
    name = client.question(run, node=body.node, request=body.request).id
    changed = client.answer(run, _given(body), request=name, by=body.by)
    return Json(Answered(run=run, request=name, changed=changed))


@router.post("/approve", responses=gives(Decided))
def approve(around: Around, run: RunId, body: Approve) -> Json:
    """Let a call be run that waits for it."""
    changed = around.client.approve(run, body.call, by=body.by)
    return Json(Decided(run=run, call=body.call, decision="approved", changed=changed))


@router.post("/deny", responses=gives(Decided))
def deny(around: Around, run: RunId, body: Deny) -> Json:
    """Refuse a call that waits for approval; its agent is told so, and goes on."""
    changed = around.client.deny(run, body.call, body.reason, by=body.by)
    return Json(Decided(run=run, call=body.call, decision="denied", changed=changed))


@router.post("/decide", responses=gives(Done))
def decide(around: Around, run: RunId, body: Decide) -> Json:
    """Decide on a draft that repair could not bring through its gates."""
    around.client.decide(run, body.decision, draft=body.draft, node=body.node, by=body.by)
    return Json(Done(run=run, action="decide", changed=True))


@router.post("/reconcile", responses=gives(Done))
def reconcile(around: Around, run: RunId, body: Reconcile) -> Json:
    """Say what became of an effect whose outcome is unknown."""
    around.client.reconcile(run, body.call, body.outcome, by=body.by, result=body.result)
    return Json(Done(run=run, action="reconcile", changed=True))


@router.post("/signals", responses=gives(Signalled))
def signal(around: Around, run: RunId, body: Signal) -> Json:
    """Send the run a signal that a node of it waits for, or will."""
    key = body.key if body.key is not None else secrets.token_hex(8)
    changed = around.client.signal(run, body.name, body.data, key=key, by=body.by)
    return Json(Signalled(run=run, name=body.name, key=key, changed=changed))


def _given(body: Answer) -> str | dict[str, str | dict[str, str]]:
    if isinstance(body.answer, str):
        return body.answer
    return {
        name: {"option": said.option} if isinstance(said, Chosen) else said
        for name, said in body.answer.items()
    }
