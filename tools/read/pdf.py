"""
The text of a PDF's pages, read in a process of its own.

A PDF is made by somebody else, and the library that reads it is native code which aborts its
process when threads share it. So each call has a process, with limits on its memory, time and
output, without the environment, and with nothing of the file but its open descriptor.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from mulligan.errors import ToolError

__all__ = ["is_pdf", "read_pdf"]

TIME_S = 40.0
"""Wall-clock time of the process, below the minute that tools have by default."""
_SNIFFED = 1_024
"""A PDF's mark is within its first kilobyte."""


_AT_A_LIMIT = (
    *(signal.SIGXCPU, signal.SIGKILL),
    *(signal.SIGABRT, signal.SIGTRAP, signal.SIGILL),  # how the library ends without memory
)


class _Page(msgspec.Struct):
    """The text of one page, None where it is damaged; `cut` if it had more."""

    number: int
    text: str | None
    cut: bool = False


class _Told(msgspec.Struct):
    """What the process says: pages, or why there are none."""

    total: int = 0
    pages: list[_Page] = []
    failed: str | None = None


_FAILURES = {
    "pdf_password": "it is locked by a password",
    "pdf_unreadable": "it is damaged, or no PDF after all",
    "pdf_too_costly": "reading it took more memory or time than it may; read fewer pages",
}


def is_pdf(file: BinaryIO) -> bool:
    """Whether a file says that it is a PDF; it is left at its beginning."""
    start = file.read(_SNIFFED)
    file.seek(0)
    return b"%PDF-" in start


def read_pdf(file: BinaryIO, name: str, first: int, count: int) -> str:
    """
    The text of `count` pages from page `first`, behind a line that says what this is.

    Raises ToolError: `pdf_unreadable`, `pdf_password`, `pdf_too_costly`.
    """
    told = _ask(file, first, count)
    if told.failed is not None:
        raise ToolError(told.failed, f"{name} can't be read: {_FAILURES[told.failed]}")
    many = f"{told.total:,} page{'' if told.total == 1 else 's'}"
    if not told.pages:
        return f"[{name}: PDF of {many}; there is no page {first:,}]"
    last = told.pages[-1].number
    rest = f"; read on with offset {last + 1}" if last < told.total else ""
    bare = _named("without a text layer (images, such as scans, or blank)", told, "")
    damaged = _named("damaged", told, None)
    head = f"[{name}: PDF, pages {first:,}-{last:,} of {told.total:,}{rest}{bare}{damaged}]"
    return "\n".join([head, *(_page(page.text, page) for page in told.pages if page.text)])


def _named(what: str, told: _Told, text: str | None) -> str:
    """Which pages have nothing but `text`, if any has."""
    pages = [page.number for page in told.pages if page.text == text]
    if not pages:
        return ""
    if len(pages) == len(told.pages):
        return f"; all of these are {what}"
    shown = ", ".join(map(str, pages[:20])) + (", …" if len(pages) > 20 else "")
    return f"; {what}: {shown}"


def _page(text: str, page: _Page) -> str:
    cut = "\n[page cut here]" if page.cut else ""
    return f"--- page {page.number} ---\n{text}{cut}"


def _ask(file: BinaryIO, first: int, count: int) -> _Told:
    script = Path(__file__).with_name("pdf_process.py")
    asked = [sys.executable, "-I", str(script), str(first), str(count)]
    try:
        done = subprocess.run(
            asked,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=TIME_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _Told(failed="pdf_too_costly")
    try:
        return msgspec.json.decode(done.stdout, type=_Told)
    except msgspec.DecodeError:  # it was ended by a limit, or by the library
        return _Told(failed="pdf_too_costly" if _by_limit(done.returncode) else "pdf_unreadable")


def _by_limit(code: int) -> bool:
    return -code in _AT_A_LIMIT
