"""
Fixtures for all tests: a real server for each test process, and a log on it for each test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mulligan.errors import EnvironmentUnfit
from mulligan.events.redis_store import RedisEventStore
from mulligan.testing.server import ValkeyServer


@pytest.fixture(scope="session")
def server() -> Iterator[ValkeyServer]:
    """
    A throwaway Valkey. Where it can't run, tests that need it are skipped on a laptop and fail in
    CI.
    """
    try:
        started = ValkeyServer()
        started.start()
    except EnvironmentUnfit as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield started
    started.close()


@pytest.fixture
def store(server: ValkeyServer) -> Iterator[RedisEventStore]:
    """A log on an empty database of the real server."""
    with server.client() as client:
        client.flushall()
    store = RedisEventStore(server.url)
    yield store
    store.close()
