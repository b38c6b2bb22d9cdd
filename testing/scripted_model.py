"""
A model that does what a script says: an OpenAI-compatible server over real HTTP.

    with ScriptedModel([{"json": {"summary": "done"}}]) as model:
        ...                      # ask at model.url
        assert model.requests[0].headers["x-mulligan-node"] == "collect"

Routes, each also without `/v1`: `POST /v1/chat/completions` (streamed or not), `GET /v1/models`,
`GET /__requests` (everything received), `POST /__script` (another script, as YAML or JSON). It
listens on the loopback alone; `script.py` says what a script holds, `faults.py` what can go wrong.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mulligan.errors import EnvironmentUnfit, InvalidInput
from mulligan.events.ids import overseen
from mulligan.testing.connection import Connections, play
from mulligan.testing.replies import Reply, error_reply, reply_to
from mulligan.testing.script import Match, Script, parse_script, script_of
from mulligan.testing.script_player import ScriptPlayer

START_SECONDS = 10.0
SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"}
)


class ReceivedRequest(msgspec.Struct, kw_only=True):
    """
    A request as the server saw it.

    `time` is UTC in ISO 8601, `headers` have lower-case names and their keys masked, `turn` is the
    number of the turn played (None: no turn was left). `outcome` is None while the response lasts,
    then `answered`, or `disconnected` if the client hung up before its end. `concurrent` counts the
    requests that were under way when it came, itself included; `over_limit`: these were more than
    the script's `max_concurrent`, and it was answered with 429.
    """

    time: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    turn: int | None = None
    outcome: str | None = None
    concurrent: int = 1
    over_limit: bool = False


class ScriptedModel:
    """
    The server, in a thread of its own, from `start` to `stop` or as a context manager.

    `script` is a script in any of its forms: parsed, YAML or JSON text, a file, a mapping, or a
    list of turns. `port` 0 takes a free one.

    Raises:
        InvalidInput: the script is none.
        EnvironmentUnfit: the port is taken (on `start`).
    """

    def __init__(
        self,
        script: Script | str | Path | Mapping[str, Any] | Sequence[Any],
        *,
        port: int = 0,
    ) -> None:
        self._player = ScriptPlayer(script_of(script))
        self._port = port
        self._connections = Connections()
        self._requests: list[ReceivedRequest] = []
        self._under_way = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """What to set as a model's `api_base`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self._port

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests for completions received so far, in order."""
        return list(self._requests)

    def play(self, script: Script | str | Path | Mapping[str, Any] | Sequence[Any]) -> None:
        """Replace the script, and begin it; the requests received are kept."""
        self._player = ScriptPlayer(script_of(script))

    def start(self) -> Self:
        """Listen and serve; returns once requests are taken."""
        listener = self._listen()
        config = uvicorn.Config(
            self._app(),
            http=self._protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="scripted-model", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Hang up on everybody and end; returns when the thread has ended."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(START_SECONDS)
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _listen(self) -> socket.socket:
        # Bound before the thread starts: a taken port is the caller's error, and requests that
        # come early wait in the backlog.
        try:
            listener = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        except OSError as error:
            raise EnvironmentUnfit(
                f"can't listen on port {self._port} of 127.0.0.1: {os.strerror(error.errno or 0)}; "
                "choose another with --port, or 0 for a free one"
            ) from None
        self._port = listener.getsockname()[1]
        return listener

    def _protocol(self) -> type[H11Protocol]:
        connections = self._connections

        class TrackedProtocol(H11Protocol):
            """Makes the transport known, so that a response can end in a reset."""

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                connections.opened(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                connections.closed(self.transport)
                super().connection_lost(exc)

        return TrackedProtocol

    def _app(self) -> Starlette:
        served: list[BaseRoute] = []
        for prefix in ("", "/v1"):
            served += [
                Route(f"{prefix}/chat/completions", _Completions(self), methods=["POST"]),
                Route(f"{prefix}/models", self._list_models, methods=["GET"]),
                Route(f"{prefix}/__requests", self._list_requests, methods=["GET"]),
                Route(f"{prefix}/__script", self._replace_script, methods=["POST"]),
            ]
        return Starlette(routes=served)

    async def _list_models(self, request: Request) -> Response:
        model = {"id": "scripted", "object": "model", "owned_by": "mulligan"}
        return _json({"object": "list", "data": [model]})

    async def _list_requests(self, request: Request) -> Response:
        return _json(self._requests)

    async def _replace_script(self, request: Request) -> Response:
        try:
            source = (await request.body()).decode()
            self.play(parse_script(source))
        except (InvalidInput, UnicodeDecodeError) as error:
            return _json({"error": {"type": "script_invalid", "message": str(error)}}, status=422)
        return _json({"status": "replaced"})

    async def complete(self, request: Request, send: Send) -> None:
        """Record a request for a completion, and play its turn."""
        body = _body_of(await request.body())
        if body is None:
            wrong = {"type": "invalid_request_error", "message": "the body is no chat completion"}
            await play(error_reply(400, wrong), request, send, self._connections)
            return
        received = _received(request, body)
        self._requests.append(received)
        with self._counted(received):
            if not received.over_limit:
                received.turn = self._player.next_turn(_seen(request, body))
            reply = await self._reply(received, body, serial=len(self._requests))
            received.outcome = await play(reply, request, send, self._connections)

    @contextmanager
    def _counted(self, received: ReceivedRequest) -> Iterator[None]:
        """Count a request among those under way; not one that is over the limit."""
        most = self._player.max_concurrent
        received.concurrent = self._under_way + 1
        received.over_limit = most is not None and received.concurrent > most
        self._under_way += not received.over_limit
        try:
            yield
        finally:
            self._under_way -= not received.over_limit

    async def _reply(self, received: ReceivedRequest, body: dict[str, Any], serial: int) -> Reply:
        if received.over_limit:
            message = f"more than {self._player.max_concurrent} requests at once"
            return error_reply(429, {"type": "rate_limit_exceeded", "message": message})
        if received.turn is None:
            message = "the script has no turn left for this request"
            return error_reply(400, {"type": "script_exhausted", "message": message})
        turn = self._player.turn(received.turn)
        await asyncio.sleep(turn.delay_ms / 1000)
        return reply_to(turn, body, serial)


class _Completions:
    """`POST /chat/completions` as a bare ASGI endpoint: faults need the connection itself."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._model.complete(Request(scope, receive), send)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _body_of(data: bytes) -> dict[str, Any] | None:
    try:
        body = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return body if isinstance(body.get("messages"), list) and body.get("model") else None


def _received(request: Request, body: dict[str, Any]) -> ReceivedRequest:
    return ReceivedRequest(
        time=datetime.datetime.now(datetime.UTC).isoformat(),
        path=request.url.path,
        headers={k: "***" if k in SECRET_HEADERS else v for k, v in request.headers.items()},
        body=body,
    )


def _seen(request: Request, body: dict[str, Any]) -> Match:
    """What is known of a request that a turn can match."""
    headers = {
        name: _unquoted(request.headers.get(f"x-mulligan-{name}"))
        for name in ("node", "attempt", "invocation", "request")
    }
    attempt = headers["attempt"]
    rounds = sum(1 for message in body["messages"] if message.get("tool_calls"))
    return Match(
        node=headers["node"],
        attempt=int(attempt) if attempt and attempt.isdigit() else None,
        invocation=headers["invocation"],
        request=headers["request"],
        model=str(body["model"]),
        rounds=rounds,
        overseer=overseen(headers["invocation"] or "") is not None,
    )


def _unquoted(value: str | None) -> str | None:
    return None if value is None else urllib.parse.unquote(value)
