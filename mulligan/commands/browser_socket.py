"""What `mulligan browser --json` prints."""

from __future__ import annotations

from typing import Literal

import msgspec


class Listening(msgspec.Struct, kw_only=True):
    """Where the bridge listens, and its windows."""

    kind: Literal["browser"] = "browser"
    socket: str
    windows: tuple[str, ...]
