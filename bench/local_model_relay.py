"""
A relay that passes requests to a model on byte by byte, and keeps what both sides said.

It is the witness beside a run: what it kept came off the wire, not out of mulligan.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

SILENCE_S = 120.0
"""After which the model counts as hung; the client is cut off then."""


@dataclass
class Exchange:
    """One request of a node, and the bytes of the response as far as they came."""

    node: str
    status: int = 0
    received: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """What the model said, calls of tools included."""
        return "".join(
            piece
            for chunk in self._chunks()
            for choice in chunk.get("choices", ())
            for piece in _said(choice.get("delta", {}))
        )

    @property
    def finish_reason(self) -> str | None:
        """As the server gave it."""
        given = [
            choice["finish_reason"]
            for chunk in self._chunks()
            for choice in chunk.get("choices", ())
            if choice.get("finish_reason")
        ]
        return given[-1] if given else None

    @property
    def whole(self) -> bool:
        """Whether the stream reached its end."""
        return b"data: [DONE]" in self.received

    def _chunks(self) -> Iterator[dict[str, Any]]:
        for line in self.received.splitlines():
            if line.startswith(b"data: {"):
                yield json.loads(line[len(b"data: ") :])


def _said(delta: dict[str, Any]) -> Iterator[str]:
    yield delta.get("content") or ""
    for call in delta.get("tool_calls") or ():
        yield call.get("function", {}).get("arguments") or ""


def _passed_on(headers: Message) -> dict[str, str]:
    """What a request was sent for, and what its body is; the rest is of the connection."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower() == "content-type" or name.lower().startswith("x-mulligan-")
    }


class Relay:
    """A server on the loopback in front of `upstream` (`http://HOST:PORT/v1`), in a context."""

    def __init__(self, upstream: str) -> None:
        self.exchanges: list[Exchange] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(upstream, self.exchanges))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """What to set as a model's `api_base`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def of(self, node: str) -> list[Exchange]:
        """A node's exchanges, in the order of its requests."""
        return [one for one in self.exchanges if one.node == node]

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(upstream: str, kept: list[Exchange]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Speaks HTTP/1.0: the end of the response is the end of the connection."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            exchange = Exchange(self.headers.get("x-mulligan-node", ""))
            kept.append(exchange)
            asked = urllib.request.Request(
                upstream + self.path.removeprefix("/v1"), body, _passed_on(self.headers)
            )
            try:
                self._pass_on(urllib.request.urlopen(asked, timeout=SILENCE_S), exchange)
            except urllib.error.HTTPError as refused:
                self._pass_on(refused, exchange)
            except OSError:
                self.close_connection = True

        def _pass_on(self, answer: Any, exchange: Exchange) -> None:
            exchange.status = answer.status
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.end_headers()
            with answer:
                while piece := answer.read1(65_536):
                    exchange.received += piece
                    self.wfile.write(piece)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    return Handler
