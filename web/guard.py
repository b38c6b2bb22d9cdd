"""
What every request passes: whether it is let in, how large it may be, and what becomes of errors.
"""

from __future__ import annotations

import asyncio
import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mulligan.logs import stack_of
from mulligan.web.access import Access
from mulligan.web.problems import problem

MOST_BODY_BYTES = 16 * 1024 * 1024
"""Of a request's body, as of a draft that a command reads."""
BODY_TIMEOUT_S = 30.0
"""Until the whole of a body is there."""

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
}
"""Where a route does not say otherwise."""

_SAFE = ("GET", "HEAD", "OPTIONS")

log = structlog.get_logger(__name__)


class Guard:
    """Stands around the application: middleware for ASGI."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        began_s = time.monotonic()
        try:
            await self._answer(scope, receive, answer)
        finally:
            _log(scope, answer.status, time.monotonic() - began_s)

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = Headers(scope=scope)
        refusal = self._access.refusal(scope["path"], headers)
        if refusal is not None:
            asks = {"WWW_Authenticate": "Bearer"} if refusal.status == 401 else {}
            response = problem(refusal.status, refusal.code, refusal.detail, **asks)
            await response(scope, receive, answer)
            return
        try:
            await self._app(scope, _bounded(receive, headers), answer)
        except Exception as error:
            log.error("request_failed", path=scope["path"], stack=stack_of(error))
            if answer.status is None:
                told = "something went wrong here; the server's log says where"
                await problem(500, "internal", told)(scope, receive, answer)


class _Answer:
    """Sends an answer, with the headers that every one has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _bounded(receive: Receive, headers: Headers) -> Receive:
    """`receive`, for a body of bounded size and time."""
    declared = headers.get("content-length", "")
    got = 0
    whole = False
    until_s: float | None = None

    async def bounded() -> Message:
        nonlocal got, whole, until_s
        if whole:  # what comes now is that the client has gone, at its own time
            return await receive()
        if declared.isdecimal() and int(declared) > MOST_BODY_BYTES:
            raise _too_large()
        now_s = time.monotonic()
        until_s = until_s if until_s is not None else now_s + BODY_TIMEOUT_S
        try:
            message = await asyncio.wait_for(receive(), until_s - now_s)
        except TimeoutError:
            told = f"a body has to be there within {BODY_TIMEOUT_S:g} s"
            raise HTTPException(408, told, {"Connection": "close"}) from None
        got += len(message.get("body", b""))
        if got > MOST_BODY_BYTES:
            raise _too_large()
        whole = not message.get("more_body", False)
        return message

    return bounded


def _too_large() -> HTTPException:
    told = f"a body may have {MOST_BODY_BYTES:,} bytes"
    return HTTPException(413, told, {"Connection": "close"})


def _log(scope: Scope, status: int | None, took_s: float) -> None:
    """Who changed what, and who was not let in; the rest for those who ask for it."""
    quiet = scope["method"] in _SAFE and status not in (401, 403, 421)
    (log.debug if quiet else log.info)(
        "request",
        method=scope["method"],
        path=scope["path"],
        status=status,
        took_ms=round(took_s * 1_000),
    )
