"""Functions of workflows whose workers are processes of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mulligan.schemas.run_context import RunContext


def held(run_context: RunContext) -> float:
    """Says who began it and when; whoever does so first in a run never comes to its end."""
    path = Path(os.environ["BENCH_BEGUN"]) / run_context.run
    again = path.exists()
    path.write_text(str(os.getpid()))
    if not again:
        time.sleep(3_600)
    return time.time()


def items(input: int) -> list[int]:  # noqa: A002 - the name of a run's input
    """What a run fans out over."""
    return list(range(input))


def step(input: int) -> int:  # noqa: A002 - the name of a run's input
    """What is measured does nothing."""
    return input


def part(item: int) -> int:
    """So does this, of each of many."""
    return item
