"""
The tap on the wire under litellm.

An httpx transport that takes the request which litellm built, refuses it unless it is the one that
was prepared, and does the exchange itself. What litellm makes of a response is no evidence (it
invents finish reasons, usage and arguments), so it gets none: a made-up empty one keeps it content.
"""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec

from mulligan.providers import classify
from mulligan.providers.exchange import Exchange
from mulligan.providers.port import Answer, Failure, Hear

KEPT_HEADERS = frozenset({"authorization", "accept", "accept-encoding", "content-type"})
"""Of the headers that the libraries made. Others say what machine this is, or come from `OPENAI_*`
variables that were meant for another address."""


class WireTap(httpx2.AsyncBaseTransport):
    """
    Good for one request: `url` and `body` are what it must be, `headers` what is added to it, and
    `hear` is told what streams. What came of it stands in `outcome`; None if nothing was sent.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        url: str,
        body: dict[str, Any],
        headers: dict[str, str],
        hear: Hear | None = None,
    ) -> None:
        self._exchange = exchange
        self._url = url
        self._body = body
        self._headers = headers
        self._hear = hear
        self.outcome: Answer | Failure | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Do the exchange, once; a second request on this tap is refused."""
        if self.outcome is not None:
            raise httpx2.RequestError("a second request was refused", request=request)
        changed = self._changes(await request.aread(), str(request.url))
        if changed:
            self.outcome = body_changed(changed)
        else:
            self.outcome = await self._exchange.send(self._outgoing(request), self._hear)
        return _nothing(stream=bool(self._body.get("stream")))

    def _changes(self, content: bytes, url: str) -> list[str]:
        """Where the request is not the one prepared: names of keys, never values."""
        body = msgspec.json.decode(content, type=dict[str, Any])
        keys = sorted(body.keys() | self._body.keys())
        changed = [key for key in keys if body.get(key, ...) != self._body.get(key, ...)]
        return changed if url == self._url else ["address", *changed]

    def _outgoing(self, request: httpx2.Request) -> httpx2.Request:
        kept = {k: v for k, v in request.headers.items() if k.lower() in KEPT_HEADERS}
        content = msgspec.json.encode(self._body)
        return httpx2.Request("POST", self._url, headers=kept | self._headers, content=content)


def body_changed(names: list[str]) -> Failure:
    """The refusal to send another request than the prepared one; names what differs."""
    refused = classify.failure("body_changed", transient=False)
    message = f"{refused.cause.message} ({', '.join(names)})"
    return msgspec.structs.replace(
        refused, cause=msgspec.structs.replace(refused.cause, message=message)
    )


def _nothing(*, stream: bool) -> httpx2.Response:
    if stream:
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=b"data: [DONE]\n\n"
        )
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
    return httpx2.Response(
        200,
        json={
            "id": "none",
            "object": "chat.completion",
            "created": 0,
            "model": "none",
            "choices": [choice],
        },
    )
