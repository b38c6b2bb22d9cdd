"""HTTP answers of bounded size: the SDK reads a body as a whole, however large it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from mulligan.tools.mcp.unusable import MOST_ANSWER_BYTES, MOST_BYTES

__all__ = ["BoundedTransport"]


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """
    The usual way to a server. A body beyond MOST_ANSWER_BYTES, or MOST_BYTES of an event stream,
    and one that is compressed though nobody asked for that, ends with httpx2.StreamError.
    """

    def __init__(self) -> None:
        super().__init__(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.AsyncBaseTransport`."""
        request.headers["Accept-Encoding"] = "identity"
        answer = await super().handle_async_request(request)
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        events = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
        most = MOST_BYTES if events else MOST_ANSWER_BYTES
        if answer.headers.pop("content-encoding", "identity").lower() != "identity":
            most = 0  # a few bytes of it may be any number
        return httpx2.Response(
            status_code=answer.status_code,
            headers=answer.headers,
            stream=_Bounded(answer.stream, most),
            extensions=answer.extensions,
        )


class _Bounded(httpx2.AsyncByteStream):
    """A stream that ends with an error once it has given too much."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise httpx2.StreamError("the answer is too large, or compressed")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
