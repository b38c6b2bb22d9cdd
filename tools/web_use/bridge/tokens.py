"""Page tokens: single-use, owned by a turn, of one bridge process (WEB-3)."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["PageTokens"]

MOST = 20_000
"""Tokens that are remembered; the oldest go first."""


class _Token:
    """What a token stands for; `used_by` is the id of the command that took it."""

    __slots__ = ("owner", "page", "used_by")

    def __init__(self, owner: str, page: str) -> None:
        self.owner = owner
        self.page = page
        self.used_by: str | None = None


class PageTokens:
    """The tokens that this process has issued, and nobody else's."""

    def __init__(self) -> None:
        self.instance = secrets.token_hex(4)
        self._tokens: OrderedDict[str, _Token] = OrderedDict()

    def issue(self, owner: str, page: str) -> str:
        """A token by which `owner` may use a page once."""
        token = f"p_{self.instance}_{secrets.token_urlsafe(9)}"
        self._tokens[token] = _Token(owner, page)
        if len(self._tokens) > MOST:
            self._tokens.popitem(last=False)
        return token

    def page(self, token: str, owner: str, action: str) -> str:
        """
        The page that a token stands for. The command that took it may come again.

        Raises WebUseFailed: `page_context_stale`, `page_context_owner_mismatch` or
        `page_context_consumed`.
        """
        known = self._tokens.get(token)
        if known is None:
            raise WebUseFailed(
                "page_context_stale",
                "this page token is not of the browser bridge that runs now; list_pages gives new",
            )
        if known.owner != owner:
            raise WebUseFailed(
                "page_context_owner_mismatch",
                "this page token was given to somebody else; list_pages gives one of your own",
            )
        if known.used_by not in (None, action):
            raise WebUseFailed(
                "page_context_consumed",
                "this page token was used; take the one of that result, or list_pages",
            )
        return known.page

    def take(self, token: str, action: str) -> None:
        """Use a token up."""
        self._tokens[token].used_by = action
