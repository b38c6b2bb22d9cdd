"""Pure: what pages say of themselves, in lengths that people and models can read."""

from __future__ import annotations

__all__ = ["shown_title", "shown_url"]

MOST_TITLE = 500
MOST_URL = 8_192
"""Characters, as of a URL that is asked for; a page may make its own as long as it likes."""


def shown_title(title: str) -> str:
    """A title, or its beginning with a mark."""
    return _cut(title, MOST_TITLE)


def shown_url(url: str) -> str:
    """A URL, or its beginning with a mark."""
    return _cut(url, MOST_URL)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
