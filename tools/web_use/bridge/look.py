"""A page at one moment."""

from __future__ import annotations

import msgspec

from mulligan.tools.web_use.bridge.snapshot import Snapshot
from mulligan.tools.web_use.results import PageState

__all__ = ["Look"]


class Look(msgspec.Struct, frozen=True):
    """A page at one moment. What is not `ready` shows nothing."""

    state: PageState
    url: str
    title: str = ""
    text: str = ""
    snapshot: str = ""
    passwords: int = 0
    """fields for one"""

    @property
    def tree(self) -> Snapshot:
        """The snapshot, read."""
        return Snapshot(self.snapshot)
