"""The page's files: plain HTML, CSS and ES modules, as they lie in `page/`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import fastapi
from fastapi import APIRouter, Header
from starlette.responses import FileResponse, Response

from mulligan.web.problems import problem

FOLDER = Path(__file__).parent / "page"
FRONT = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""By what the file is called, whatever the machine's own table says: browsers run no module that is
not called one."""

router = APIRouter(include_in_schema=False)

IfNoneMatch = Annotated[str | None, Header()]


@router.get("/")
def front(if_none_match: IfNoneMatch = None) -> Response:
    """The page."""
    return _file(FRONT, if_none_match)


@router.get("/page/{name}")
def part(
    name: Annotated[str, fastapi.Path(max_length=100)], if_none_match: IfNoneMatch = None
) -> Response:
    """What the page is made of."""
    return _file(name, if_none_match)


def _file(name: str, known: str | None) -> Response:
    """A file of the folder. Browsers keep it, and ask each time whether it is still that one."""
    path = FOLDER / name
    if path.parent != FOLDER or path.suffix not in MEDIA_TYPES or not path.is_file():
        return problem(404, "not_found", "the page has no such file")
    found = path.stat()
    headers = {
        "Cache-Control": "no-cache",
        "ETag": f'"{found.st_mtime_ns:x}-{found.st_size:x}"',
    }
    if known == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, headers=headers, media_type=MEDIA_TYPES[path.suffix])
