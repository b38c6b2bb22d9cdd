"""`mulligan serve`, as people start it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from mulligan.errors import EnvironmentUnfit
from mulligan.testing.server import ValkeyServer
from mulligan.web.server import listen

TOKEN = "s" * 40


def test_it_serves_until_it_is_told_to_end(server: ValkeyServer, tmp_path: Path) -> None:
    with server.client() as connection:
        connection.flushall()
    process = subprocess.Popen(
        [sys.executable, "-m", "mulligan.cli", "serve", "--port", "0", "--json"],
        env={**os.environ, "MULLIGAN_REDIS_URL": server.url, "MULLIGAN_HTTP_TOKENS": TOKEN},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline() == "starting\n", "before it imports and connects"
    told = json.loads(process.stdout.readline())
    assert (told["kind"], told["token"]) == ("serving", True)
    with httpx2.Client(base_url=told["url"], trust_env=False) as http:
        assert http.get("/readyz").status_code == 200
        assert http.get("/runs").status_code == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert http.get("/runs", headers=bearer).json()["runs"] == []
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert TOKEN not in said


def test_what_others_can_reach_needs_a_token(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    refused = command("serve", "--host", "0.0.0.0", folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "MULLIGAN_HTTP_TOKENS" in refused.stderr
    assert not (tmp_path / ".mulligan").exists(), "refused before anything was begun"


def test_a_token_that_is_a_word_is_refused_and_not_shown(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    refused = command("serve", folder=tmp_path, MULLIGAN_HTTP_TOKENS=f"{TOKEN},canary")
    assert refused.returncode == 2
    assert "MULLIGAN_HTTP_TOKENS must be a token of at least 32" in refused.stderr
    assert "canary" not in refused.stderr


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentUnfit, match=f"port {port}"):
            listen("127.0.0.1", port)
