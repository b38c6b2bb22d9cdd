"""`mulligan projector` as a process, while its server dies and comes back (a real server)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mulligan.client import Client
from mulligan.errors import StoreUnavailable
from mulligan.projections.rows import SUMMARIES, read_rows
from mulligan.settings import Settings
from mulligan.testing.given import plan_of
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server


@contextmanager
def projector(server: ValkeyServer, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "mulligan.cli", "projector"],
            env={**os.environ, "MULLIGAN_REDIS_URL": server.url},
            stderr=stderr,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_it_goes_on_when_its_server_is_back_and_ends_when_it_is_told(tmp_path: Path) -> None:
    """UI: rows follow by themselves, without anybody who starts a projector again."""
    said = tmp_path / "said"
    with (
        ValkeyServer(appendonly="yes", appendfsync="always") as server,
        Client(Settings(redis_url=server.url)) as client,
        projector(server, said) as process,
    ):

        def has_row(run: str) -> bool:
            try:
                return run in {row.run for row in read_rows(client.store, SUMMARIES)}
            except StoreUnavailable:
                return False

        client.enqueue(plan_of(), run_id="before")
        until(lambda: has_row("before"), why=said.read_text)
        server.kill()
        until(lambda: "goes on when the server is back" in said.read_text(), why=said.read_text)
        server.start()
        until(lambda: "following again" in said.read_text(), why=said.read_text)
        client.enqueue(plan_of(), run_id="after")

        until(lambda: has_row("after"), why=said.read_text)
        process.terminate()
        assert process.wait(20) == 0, said.read_text()
