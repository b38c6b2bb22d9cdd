"""The tool `read`: lines of a text file, or the text of a PDF's pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from mulligan.errors import ToolError
from mulligan.schemas.run_context import RunContext
from mulligan.tools.read.pdf import is_pdf, read_pdf
from mulligan.tools.read.roots import open_within
from mulligan.tools.read.text import read_text
from mulligan.tools.registry import tool

__all__ = ["DEFAULT_LINES", "DEFAULT_PAGES", "read", "read_file"]

DEFAULT_LINES = 2_000
DEFAULT_PAGES = 20
"""How much is read where nothing is said (READ-1)."""

_PAGES = re.compile(r"\s*(\d{1,9})\s*(?:(-)\s*(\d{1,9})?\s*)?")


@tool(effect="read")
def read(
    file_path: str,
    offset: int | None = None,
    limit: int | None = None,
    pages: str | None = None,
    *,
    run_context: RunContext | None = None,
) -> str:
    """
    Read a text file or a PDF from the folders that may be read here.

    Text: numbered lines from line 1, 2,000 at most; a very long line is cut, with a mark. PDF: the
    text of pages from page 1, 20 at most. To read elsewhere give `offset` (the first line, or page)
    and `limit` (how many), or for a PDF `pages`, such as "3", "5-9" or "12-". The first line of the
    result says what was read, of how much, and where to read on.
    """
    if run_context is None:
        raise ToolError("permission_denied", "read belongs to a run; enqueue a workflow")
    return read_file(file_path, run_context.read_roots, offset, limit, pages)


def read_file(
    file_path: str,
    roots: Sequence[str],
    offset: int | None = None,
    limit: int | None = None,
    pages: str | None = None,
) -> str:
    """
    What `read` says of a file under one of `roots` (absolute paths). None is what was left out.

    Raises ToolError: `invalid_arguments`, `outside_roots`, `not_found`, `not_a_file`, `unreadable`,
    `not_text`, `too_far`, or for a PDF `pdf_unreadable`, `pdf_password`, `pdf_too_costly`.
    """
    _check(offset, limit, pages)
    file, name = open_within(file_path, roots)
    with file:
        if is_pdf(file):
            first, count = _pages(pages) if pages is not None else _from(offset, limit)
            return read_pdf(file, name, first, DEFAULT_PAGES if count is None else count)
        if pages is not None:
            raise ToolError(
                "invalid_arguments", f"{name} is no PDF, and has no pages: give offset and limit"
            )
        return _text(file, name, *_from(offset, limit))


def _text(file: BinaryIO, name: str, first: int, count: int | None) -> str:
    return read_text(file, name, first, DEFAULT_LINES if count is None else count)


def _from(offset: int | None, limit: int | None) -> tuple[int, int | None]:
    return (1 if offset is None else offset), limit


def _check(offset: int | None, limit: int | None, pages: str | None) -> None:
    for name, value in (("offset", offset), ("limit", limit)):
        if value is not None and value < 1:
            raise ToolError("invalid_arguments", f"{name} counts from 1, or is left out (or null)")
    if pages is None:
        return
    if offset is not None or limit is not None:
        raise ToolError("invalid_arguments", "give pages, or offset and limit, not both")
    _pages(pages)


def _pages(text: str) -> tuple[int, int | None]:
    """The first page and the number of pages of `3`, `5-9` or `12-` (None: by default)."""
    found = _PAGES.fullmatch(text)
    first = int(found[1]) if found is not None else 0
    last = int(found[3]) if found is not None and found[3] else None
    if first < 1 or (last is not None and last < first):
        raise ToolError("invalid_arguments", 'pages is a page or a range: "3", "5-9", "12-"')
    assert found is not None
    if last is not None:
        return first, last - first + 1
    return first, None if found[2] else 1
