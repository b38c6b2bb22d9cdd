"""
Waiting for something to come true, with a bound instead of a sleep.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.01


def until(
    condition: Callable[[], object], timeout_s: float = 20.0, why: Callable[[], str] = str
) -> None:
    """
    Return once `condition` is true.

    Raises:
        AssertionError: it is not within `timeout_s`; `why` is asked for what to say with it.
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline_s:
            raise AssertionError(f"the condition did not come true in {timeout_s:g} s\n{why()}")
        time.sleep(LOOK_EVERY_S)


__all__ = ["until"]
