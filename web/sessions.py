"""Sign-in for pages: a token is given once, and a cookie that scripts can't read stands for it."""

from __future__ import annotations

from typing import Literal

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from mulligan.web.access import COOKIE
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import SignIn
from mulligan.web.problems import problem
from mulligan.web.surroundings import Around

router = APIRouter(tags=["session"], default_response_class=Json)


class Session(msgspec.Struct, kw_only=True):
    """Whether a token is asked for here, and whether this request had one."""

    kind: Literal["session"] = "session"
    needs_token: bool
    signed_in: bool


@router.get("/session", responses=gives(Session))
async def session(around: Around, request: Request) -> Json:
    """Whether a page has to ask for a token."""
    access = around.access
    signed_in = not access.needs_token or access.knows(request.headers)
    return Json(Session(needs_token=access.needs_token, signed_in=signed_in))


@router.post("/session", responses=gives(Session))
async def sign_in(around: Around, request: Request, body: SignIn) -> Response:
    """Give a token, and get a cookie that lets in until the browser is closed."""
    access = around.access
    if not access.needs_token:
        return Json(Session(needs_token=False, signed_in=True))
    value = access.session(body.token)
    if value is None:
        return problem(401, "token_unknown", "this is no token of this server")
    answer = Json(Session(needs_token=True, signed_in=True))
    secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
    answer.set_cookie(COOKIE, value, httponly=True, samesite="strict", secure=secure)
    return answer


@router.delete("/session", responses=gives(Session))
async def sign_out(around: Around) -> Json:
    """Forget the cookie."""
    needed = around.access.needs_token
    answer = Json(Session(needs_token=needed, signed_in=not needed))
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
