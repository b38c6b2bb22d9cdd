"""
Answers in the shapes that commands print with `--json`, and how OpenAPI tells of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import JSONResponse

from mulligan.web.problems import MEDIA_TYPE, Problem

REF = "#/components/schemas/{name}"


class Json(JSONResponse):
    """A value as JSON."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def gives(*shapes: type, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: it answers with one of these shapes (none: any
    JSON), or with a problem."""
    refs = [{"$ref": REF.format(name=shape.__name__)} for shape in shapes]
    schema: dict[str, Any] = refs[0] if len(refs) == 1 else {"anyOf": refs} if refs else {}
    return {status: {"content": {"application/json": {"schema": schema}}}, **PROBLEMS}


def _problem(description: str) -> dict[str, Any]:
    ref = {"$ref": REF.format(name=Problem.__name__)}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": ref}}}


PROBLEMS: Mapping[int | str, dict[str, Any]] = {
    "4XX": _problem("What was asked for can't be done; `code` and `detail` say why."),
    "5XX": _problem("It can't be done now; with 503 it may be asked again as it is."),
}
