"""The tools and functions of the soak: each notes what it did, when, and under which key."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mulligan import tool

READ_S, WRITE_S = 0.02, 0.4
"""How long they take: long enough for writes to be under way when something is killed."""

TIMEOUT_MS = 5_000
"""So long a cancelled run waits for a tool's receipt, also if nobody is left to give it."""


def _done(key: str) -> None:
    """One line, in one write, as a mail server would keep what it was handed."""
    file = os.open(os.environ["SOAK_EFFECTS"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{key} {time.time_ns() // 1_000_000}\n".encode())
    finally:
        os.close(file)


@tool(effect="read", timeout_ms=TIMEOUT_MS)
def look(idempotency_key: str) -> int:
    """Look something up."""
    time.sleep(READ_S)
    _done(idempotency_key)
    return 1


@tool(effect="idempotent", timeout_ms=TIMEOUT_MS)
def put(idempotency_key: str) -> str:
    """Put something where it may be put again; large enough not to stay in the event."""
    _done(idempotency_key)
    return "x" * 9_000


@tool(effect="write", timeout_ms=TIMEOUT_MS)
def send(idempotency_key: str) -> str:
    """Send something that can't be taken back, nor looked up."""
    time.sleep(WRITE_S / 2)
    _done(idempotency_key)
    time.sleep(WRITE_S / 2)
    return "sent"


def mailed(idempotency_key: str) -> bool:
    """Whether it was mailed."""
    lines = Path(os.environ["SOAK_EFFECTS"]).read_text().splitlines()
    return any(line.rpartition(" ")[0] == idempotency_key for line in lines)


@tool(effect="write", timeout_ms=TIMEOUT_MS, verify=mailed)
def mail(idempotency_key: str) -> str:
    """Send something that can be looked up afterwards."""
    time.sleep(WRITE_S / 2)
    _done(idempotency_key)
    time.sleep(WRITE_S / 2)
    return "mailed"


def part(item: int, idempotency_key: str) -> int:
    """One item's work."""
    _done(idempotency_key)
    return item


def publish(part: list[int], idempotency_key: str) -> int:
    """What must not be done twice, and can't be looked up."""
    time.sleep(WRITE_S / 2)
    _done(idempotency_key)
    time.sleep(WRITE_S / 2)
    return sum(part)


def total(publish: int, hand: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
    """What came of it all."""
    _done(idempotency_key)
    return {"published": publish, "found": hand["found"]}
