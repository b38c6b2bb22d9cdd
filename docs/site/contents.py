"""The site's table of contents: the links of the index page, under its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator


def trees(page: str) -> str:
    """One hidden `toctree` for each heading of the index page, of the pages that it links to."""
    return "".join(_tree(caption, links) for caption, links in _sections(page) if links)


def _sections(page: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        caption, _, text = section.partition("\n")
        # The first link of an item is what the item is about, and its text how the page is called.
        yield caption.strip(), re.findall(r"^- \[([^]]*)\]\(([^)#]+)\.md\)", text, re.MULTILINE)


def _tree(caption: str, links: list[tuple[str, str]]) -> str:
    lines = "\n".join(f"{text} <{page}>" for text, page in links)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"
