"""
The probe's tools and its function: each adds a line to the file `PROBE_RECORD`, with its key, which
begins with the run's id.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mulligan import tool


def note(what: str, key: str) -> None:
    """One line, in one write."""
    file = os.open(os.environ["PROBE_RECORD"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{what} {key}\n".encode())
    finally:
        os.close(file)


@tool(effect="read")
def look(idempotency_key: str) -> int:
    """Look something up."""
    note("look", idempotency_key)
    return 1


@tool(effect="idempotent")
def put(idempotency_key: str) -> str:
    """Put something where it may be put again."""
    note("put", idempotency_key)
    return "put"


@tool(effect="write")
def send(idempotency_key: str) -> str:
    """Send something that can't be taken back."""
    note("send", idempotency_key)
    return "sent"


def mailed(idempotency_key: str) -> bool:
    """Whether the record has it."""
    with open(os.environ["PROBE_RECORD"]) as file:
        return f"mail {idempotency_key}\n" in file


@tool(effect="write", verify=mailed)
def mail(idempotency_key: str) -> str:
    """Send something that can be looked up afterwards."""
    note("mail", idempotency_key)
    return "mailed"


def total(
    input: dict[str, Any],  # noqa: A002 - the name that nodes know it by
    gather: dict[str, Any],
    idempotency_key: str,
) -> dict[str, Any]:
    """What came of it all."""
    note("total", idempotency_key)
    return {"name": input["name"], "found": gather["found"]}


def publish(idempotency_key: str) -> str:
    """Publish something that can't be taken back."""
    note("publish", idempotency_key)
    return "published"


def hand_over(idempotency_key: str) -> str:
    """Hand something over, which is done once the file `PROBE_RECORD`.go is there."""
    note("hand_over", idempotency_key)
    done = Path(f"{os.environ['PROBE_RECORD']}.go")
    while not done.exists():
        time.sleep(0.005)
    return "handed over"


hand_over_tool = tool(effect="write", name="hand_over")(hand_over)


def glance(idempotency_key: str) -> str:
    """Look something up that nobody waits for."""
    note("glance", idempotency_key)
    return "seen"


def glance_slowly(idempotency_key: str) -> str:
    """As `glance`, for longer than a message takes."""
    time.sleep(0.5)
    return glance(idempotency_key)
