"""
How the API says no: problem details (RFC 9457), each with a `code` that programs can go by.

Texts are those of `mulligan.errors`, which hold no model output and no secret; of any other error
only that it happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mulligan.errors import (
    AppendRefused,
    EnvironmentUnfit,
    EventUnreadable,
    FeedTrimmed,
    InvalidInput,
    MulliganError,
    RunExists,
    RunSetBack,
    RunUnknown,
    ScheduleExists,
    ScheduleUnknown,
    TenantQueueFull,
    WorkflowInvalid,
    WorkflowUnknown,
)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
"""What is answered with 503 may be there again as soon as that, and room in a tenant's line."""
MOST_PROBLEMS = 20

_STATUSES: tuple[tuple[type[MulliganError], int], ...] = (
    (RunUnknown, 404),
    (WorkflowUnknown, 404),
    (ScheduleUnknown, 404),
    (RunExists, 409),
    (ScheduleExists, 409),
    (InvalidInput, 422),
    (AppendRefused, 409),
    (RunSetBack, 409),
    (FeedTrimmed, 410),
    (TenantQueueFull, 429),
    (EnvironmentUnfit, 503),
    (EventUnreadable, 500),
)
"""The first that an error is one of counts."""


_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
}
"""Of what the framework and the guard refuse."""


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """
    What is wrong: `code` for programs, `detail` for people, `problems` where there are several.
    """

    title: str
    status: int
    code: str
    detail: str
    problems: tuple[str, ...] = ()


def problem(
    status: int, code: str, detail: str, problems: Sequence[str] = (), **headers: str
) -> Response:
    """The answer that says it; names of `headers` are written with `_` for `-`."""
    said = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        problems=tuple(problems),
    )
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if status in (429, 503):
        named.setdefault("Retry-After", str(RETRY_AFTER_S))
    return Response(msgspec.json.encode(said), status, headers=named, media_type=MEDIA_TYPE)


def of_error(request: Request, error: Exception) -> Response:
    """The answer for an error of ours."""
    assert isinstance(error, MulliganError)
    status, code = answered_as(type(error))
    problems = error.problems if isinstance(error, WorkflowInvalid) else ()
    return problem(status, code, str(error), problems)


def answered_as(kind: type[MulliganError]) -> tuple[int, str]:
    """The status and the `code` by which an error of ours is told."""
    status = next((status for one, status in _STATUSES if issubclass(kind, one)), 500)
    return status, _code(kind.__name__)


def of_http(request: Request, error: Exception) -> Response:
    """The answer for what the framework itself refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    headers: Mapping[str, str] = error.headers or {}
    code = _CODES.get(error.status_code, "request_invalid")
    return problem(error.status_code, code, str(error.detail), **headers)


def of_request(request: Request, error: Exception) -> Response:
    """The answer for a request that does not fit: where and why, never what was sent."""
    assert isinstance(error, RequestValidationError)
    is_json = "json" in request.headers.get("content-type", "")
    found = [f"{'.'.join(map(str, one['loc']))}: {_rule(one, is_json)}" for one in error.errors()]
    shown, more = found[:MOST_PROBLEMS], len(found) - MOST_PROBLEMS
    detail = "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
    return problem(422, "request_invalid", detail, shown)


def _rule(one: Any, is_json: bool) -> str:
    if tuple(one["loc"]) == ("body",) and not is_json:
        return "a JSON object is wanted, with the header `Content-Type: application/json`"
    # These texts may quote the value; pydantic's others are fixed.
    match one["type"]:
        case "json_invalid":
            return "here it stops being JSON"
        case "value_error" | "assertion_error":
            return "can't be used"
    return str(one["msg"])


def _code(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
