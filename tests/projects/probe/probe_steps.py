"""The probe's tools and its function: each writes a line into the file it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mulligan import tool


def note(record: str, text: str) -> None:
    """One line, in one write."""
    with Path(record).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@tool(effect="read")
def look(record: str) -> int:
    """Look something up."""
    note(record, "look")
    return 1


@tool(effect="idempotent")
def put(record: str, idempotency_key: str) -> str:
    """Put something where it may be put again."""
    note(record, f"put {idempotency_key}")
    return "put"


@tool(effect="write")
def send(record: str) -> str:
    """Send something that can't be taken back."""
    note(record, "send")
    return "sent"


def total(input: dict[str, Any], gather: dict[str, Any]) -> dict[str, Any]:  # noqa: A002 - the name that nodes know it by
    """What came of it all."""
    note(input["record"], "total")
    return {"name": input["name"], "found": gather["found"]}
