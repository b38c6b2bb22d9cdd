"""
Worker processes on the probing workflow, so that every instant can be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LEASE_MS, MARGIN_MS = 1_000, 200


@pytest.fixture
def fork(forked: Callable[..., Any], probe: Any) -> Callable[..., Any]:
    """Starts a worker process, with a crash point if one is given; it ends with the test."""

    def start(crash_at: str = "", *, lease_ms: int = LEASE_MS, threads: int = 8) -> Any:
        return forked(
            {
                "MULLIGAN_REDIS_URL": probe.url,
                "MULLIGAN_API_BASE": probe.model.url,
                "MULLIGAN_LEASE_MS": str(lease_ms),
                "MULLIGAN_LEASE_MARGIN_MS": str(MARGIN_MS),
                "MULLIGAN_CRASH_AT": crash_at,
                **probe.environment,
            },
            threads,
        )

    return start
