"""
The loop of model requests: results, errors, cancellation and its end.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from mulligan.providers.event_loop import ModelLoop
from mulligan.providers.port import Cancellation

WAIT_SECONDS = 10.0


async def nothing() -> None:
    """A farewell."""


def test_results_and_errors_come_back() -> None:
    async def work(value: str) -> str:
        if value == "wrong":
            raise ValueError(value)
        return value

    loop = ModelLoop()
    assert "right" == loop.run(lambda: work("right"), Cancellation())
    with pytest.raises(ValueError, match="wrong"):
        loop.run(lambda: work("wrong"), Cancellation())
    loop.close(nothing)


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_what_runs_has_unwound_when_the_caller_returns(end: str) -> None:
    """REC-27."""
    loop, cancellation = ModelLoop(), Cancellation()
    begun, unwound = threading.Event(), threading.Event()
    results: list[Any] = []

    async def work() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()
        return "never"

    def ask() -> None:
        results.append((loop.run(work, cancellation), unwound.is_set()))

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(WAIT_SECONDS)
    if end == "cancel":
        cancellation.cancel()
        thread.join(WAIT_SECONDS)
    loop.close(nothing)
    thread.join(WAIT_SECONDS)

    assert [(None, True)] == results


def test_nothing_runs_on_a_closed_loop() -> None:
    loop = ModelLoop()
    loop.close(nothing)
    loop.close(nothing)

    with pytest.raises(RuntimeError, match="closed"):
        loop.run(nothing, Cancellation())


def test_closing_ends_the_thread() -> None:
    before = set(threading.enumerate())
    loop = ModelLoop()
    loop.run(nothing, Cancellation())
    loop.close(nothing)

    assert set(threading.enumerate()) <= before
