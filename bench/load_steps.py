"""The functions of the load's workflows; each call leaves a line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def split(input: dict[str, Any], idempotency_key: str) -> dict[str, Any]:  # noqa: A002
    """As many items as the input says."""
    _called(idempotency_key)
    return {"items": list(range(input["items"]))}


def part(item: int, idempotency_key: str) -> int:
    """One item's work."""
    _called(idempotency_key)
    return item


def join(part: list[int], idempotency_key: str) -> int:
    """All items together."""
    _called(idempotency_key)
    return sum(part)


def publish(join: int, idempotency_key: str) -> int:
    """What must not be done twice."""
    _called(idempotency_key)
    return join


def _called(key: str) -> None:
    with (Path(os.environ["LOAD_CALLS"]) / str(os.getpid())).open("a") as calls:
        calls.write(f"{key} {time.time_ns() // 1_000_000}\n")
