"""Pure: what pages say of themselves, in lengths that people and models can read."""

from __future__ import annotations

from mulligan.tools.web_use.bridge.redaction import Redaction

__all__ = ["Shown"]

MOST_TITLE = 500
MOST_URL = 8_192
"""Characters, as of a URL that is asked for; a page may make its own as long as it likes."""


class Shown:
    """Titles and URLs, or their beginnings with a mark. Half a secret would be known by nobody."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction

    def title(self, title: str) -> str:
        """A title as it is shown."""
        return self._cut(title, MOST_TITLE)

    def url(self, url: str) -> str:
        """A URL as it is shown."""
        return self._cut(url, MOST_URL)

    def _cut(self, text: str, most: int) -> str:
        text = self._redaction.text(text)
        return text if len(text) <= most else f"{text[: most - 1]}…"
