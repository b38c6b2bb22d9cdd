"""`--input`, `--result`: JSON, or the name of a file of it or of text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mulligan.commands.given_draft import read_draft
from mulligan.errors import InvalidInput

TEXTS = (".md", ".markdown", ".txt")
"""Files whose value is their text, as it stands."""


def read_input(given: str | None, option: str = "--input") -> Any:
    """
    The value that an option gives: the content of a JSON file, the text of one that is named as
    Markdown or text, or JSON itself.

    Raises:
        InvalidInput: neither a file nor JSON; the message says where JSON is broken.
    """
    if given is None:
        return None
    file = Path(given)
    try:
        is_file = file.is_file()
    except OSError:  # too long for a name: JSON, then
        is_file = False
    if file.suffix.lower() in TEXTS and "\n" not in given:
        return read_draft(given, option)
    try:
        return msgspec.json.decode(file.read_bytes() if is_file else given.encode())
    except OSError as error:
        raise InvalidInput(f"{option}: {given} can't be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        what = f"the file {given} is not JSON" if is_file else "neither a file nor JSON"
        raise InvalidInput(f"{option}: {what}: {error}") from None
