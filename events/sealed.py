"""
Sealed candidates: what a model wrote that was no output, kept apart from the log for a while.

The one place where such text becomes bytes of the store and bytes become text again (OVR-10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from mulligan.events.data_key import DataKey

MARK = b"\0mulligan\1"
"""Before what is encrypted where anything may stand: no snapshot and no text begins so."""


class Sealed(msgspec.Struct, frozen=True):
    """The candidate for a task of the overseer's, as stored for `ttl_ms`; never printed."""

    task: str
    data: bytes
    ttl_ms: int

    def encrypted(self, key: DataKey) -> Sealed:
        """The same, readable only with the run's key."""
        return replace(self, data=MARK + key.seal(self.data, f"candidate of {self.task}"))

    def __repr__(self) -> str:
        return f"Sealed({self.task!r}, <{len(self.data)} bytes>, {self.ttl_ms} ms)"


def seal(task: str, text: str, ttl_ms: int) -> Sealed:
    """Seal the candidate that the overseer's `task` shall find."""
    return Sealed(task, text.encode("utf-8", "surrogatepass"), ttl_ms)


def unseal(data: bytes) -> str:
    """The candidate; half of a surrogate pair, which no request could carry, is replaced."""
    return data.decode("utf-8", "replace")
