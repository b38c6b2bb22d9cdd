"""`web_use` for callers that are no run (WEB-8): the same commands, the same results."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

import anyio
import msgspec
from fastapi import APIRouter

from mulligan.schemas.web_rules import WebRules
from mulligan.settings import Settings
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import use
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import WebUse
from mulligan.web.surroundings import Around

MOST_AT_ONCE = 16
"""Commands that are under way; more wait."""

router = APIRouter(tags=["browser"], default_response_class=Json)


class WebUsed(msgspec.Struct, kw_only=True):
    """
    What came of a command, as an agent would be told it: `value`, or with `is_error` a code and a
    message. With `unknown` an act may have been done all the same, and must not be repeated.
    `session` is to be named by the commands that follow; `call` was this one's id.
    """

    session: str
    call: str
    is_error: bool
    value: Any
    code: str | None
    message: str | None
    unknown: bool


@router.post("/api/web-use", responses=gives(WebUsed))
async def web_use(around: Around, body: WebUse) -> Json:
    """
    Do one command of `web_use`: list pages, observe one, act. A command that fails is answered with
    200 and `is_error`, as an agent's would be.
    """
    session = body.session or secrets.token_urlsafe(12)
    call = body.call or secrets.token_urlsafe(12)
    settings = around.client.settings
    caller = Caller.outside(session, call, window=body.window, rules=_rules(settings))
    used = await anyio.to_thread.run_sync(
        partial(use, settings.browser_socket_path, body.model_extra or {}, caller),
        limiter=around.browsing,
    )
    return Json(
        WebUsed(
            session=session,
            call=call,
            is_error=used.is_error,
            value=used.value,
            code=used.code,
            message=used.message,
            unknown=used.unknown,
        )
    )


def _rules(settings: Settings) -> WebRules:
    return WebRules(allow=settings.browser_allow, networks=settings.browser_networks)
