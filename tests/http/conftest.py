"""The API as people start it in a program: on a port, over a real log."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from mulligan.client import Client
from mulligan.logs import configure_logs
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.web.access import Access
from mulligan.web.app import create_app
from mulligan.web.catalogue import Catalogue
from mulligan.web.server import Server, listen

FLOW = """\
name: tea
settings: {model: scripted/any, recovery_limit: 0}
nodes:
  - id: brew
    kind: agent
    prompt: "Brew {input.kind}."
    allow_user_input: true
"""


class Api:
    """A server in a thread, and a client of its log."""

    def __init__(self, client: Client, access: Access, catalogue: Catalogue) -> None:
        self.client = client
        self.app = create_app(client, access, catalogue)
        started = threading.Event()
        self.listener = listen("127.0.0.1", 0)
        self.port: int = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = Server(self.app, started.set)
        self._thread = threading.Thread(target=self._server.run, args=([self.listener],))
        self._thread.start()
        assert started.wait(20)
        self.http = httpx2.Client(base_url=self.url, timeout=20, trust_env=False)

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of an answer that has to be 200."""
        answer = self.http.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        """The JSON of an answer to a body."""
        answer = self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refusal(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        """Status and code of an answer that says no."""
        answer = self.http.request(method, path, **options)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        told = answer.json()
        assert told["status"] == answer.status_code
        assert told["detail"]
        return answer.status_code, told["code"]

    def close(self) -> None:
        self.http.close()
        self._server.end()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.listener.close()


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> Iterator[None]:
    """What servers log is kept off the terminal."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    configure_logs("error", stream=io.StringIO())
    yield
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workflow file whose agent may ask."""
    path = tmp_path_factory.mktemp("flow") / "tea.yaml"
    path.write_text(FLOW)
    return path


@contextmanager
def serving(
    server: ValkeyServer,
    folder: Path,
    access: Access,
    *flows: Path,
    payload_keys: str | None = None,
    empty: bool = True,
) -> Iterator[Api]:
    """An API on a log, an empty one if not told otherwise."""
    if empty:
        with server.client() as connection:
            connection.flushall()
    settings = Settings(redis_url=server.url, data_dir=folder, payload_keys=payload_keys)
    with Client(settings) as client:
        api = Api(client, access, Catalogue(sources=map(str, flows)))
        try:
            yield api
        finally:
            api.close()


@pytest.fixture(scope="module")
def api(
    server: ValkeyServer, flow: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    """An API that asks for no token, shared by the tests of a module."""
    with serving(server, tmp_path_factory.mktemp("api"), Access(), flow) as api:
        yield api
