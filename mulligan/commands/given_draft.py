"""A draft that a person hands in, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mulligan.errors import InvalidInput

MOST_BYTES = 16 * 1024 * 1024
"""Larger files are no drafts."""


def read_draft(name: str, option: str = "") -> Any:
    """
    The text of a file, or its value where it is a `.json` file; `option` is what named it.

    Raises:
        InvalidInput: it can't be read, is empty, too large, or not what its name says.
    """
    file, told = Path(name), f"{option}: {name}" if option else name
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{told} can't be read: {error.strerror}") from None
    if not raw.strip():
        raise InvalidInput(f"{told} is empty")
    if len(raw) > MOST_BYTES:
        raise InvalidInput(f"{told} holds {len(raw):,} bytes; {MOST_BYTES:,} is the most")
    try:
        return msgspec.json.decode(raw) if file.suffix == ".json" else raw.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = "JSON" if file.suffix == ".json" else "UTF-8 text"
        raise InvalidInput(f"{told} is not {what}: {error}") from None
