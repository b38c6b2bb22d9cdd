"""
The process that reads one PDF: `python -I pdf_process.py FIRST COUNT`, the file as its input.

It prints a JSON object and knows nothing of mulligan, which a script that runs isolated can't
import: `total` pages, and `pages` from FIRST on with their text (null: the page is damaged); or
`failed`, why there are none.
"""

from __future__ import annotations

import json
import resource
import sys
from importlib import import_module
from typing import Any

MEMORY_BYTES = 1 << 30
CPU_S = 30
PAGE_CHARACTERS = 200_000
TOTAL_CHARACTERS = 8_000_000
"""Of all pages together; those beyond are read by another call."""


def limit() -> None:
    """Take memory, time, files to write and core dumps from this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(first: int, count: int) -> dict[str, object]:
    """The pages, or why there are none."""
    pypdfium2: Any = import_module("pypdfium2")  # after the limits are set; it has no annotations
    try:
        document = pypdfium2.PdfDocument(sys.stdin.buffer)
    except pypdfium2.PdfiumError as error:
        password = error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD
        return {"failed": "pdf_password" if password else "pdf_unreadable"}
    total, left = len(document), TOTAL_CHARACTERS
    pages: list[dict[str, object]] = []
    for index in range(first - 1, min(first - 1 + count, total)):
        text = text_of(document, index)
        kept = text[:PAGE_CHARACTERS] if text is not None else ""
        left -= len(kept)
        if left < 0 and pages:
            break
        cut = text is not None and len(kept) < len(text)
        pages.append({"number": index + 1, "text": text if text is None else kept, "cut": cut})
    return {"total": total, "pages": pages}


def text_of(document: Any, index: int) -> str | None:
    """A page's text layer, empty where it has none; None where the page is damaged."""
    pypdfium2: Any = import_module("pypdfium2")
    try:
        page = document[index]
        text_page = page.get_textpage()
        text = text_page.get_text_bounded()
        text_page.close()
        page.close()
    except pypdfium2.PdfiumError:
        return None
    # Halves of surrogate pairs, which it may give, are no text that JSON could carry.
    return str(text).replace("\r\n", "\n").strip().encode(errors="replace").decode()


def main() -> None:
    limit()
    try:
        told = read(int(sys.argv[1]), int(sys.argv[2]))
    except MemoryError:
        told = {"failed": "pdf_too_costly"}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
