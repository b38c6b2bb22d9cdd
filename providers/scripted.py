"""
Models of the name `scripted/<name>`: any OpenAI-compatible address, asked directly.

Meant for the scripted model server; needs no key and not litellm, whose import costs seconds.
"""

from __future__ import annotations

import httpx2
import msgspec

from mulligan.errors import EnvironmentUnfit
from mulligan.providers import classify
from mulligan.providers.body import prepare, tracing_headers
from mulligan.providers.event_loop import ModelLoop
from mulligan.providers.exchange import Deadlines, Exchange
from mulligan.providers.port import Answer, Cancellation, Failure, Hear, ModelRequest, Prepared
from mulligan.providers.repetition import DEFAULT_REPETITION, Repetition

PREFIX = "scripted/"


class ScriptedModelProvider:
    """A provider that asks the server at a request's `api_base`, or at the one given here."""

    def __init__(
        self,
        api_base: str | None = None,
        deadlines: Deadlines | None = None,
        repetition: Repetition = DEFAULT_REPETITION,
    ) -> None:
        self._api_base = api_base
        self._loop = ModelLoop()
        self._exchange = Exchange(deadlines or Deadlines(), repetition)

    def prepare(self, request: ModelRequest) -> Prepared:
        """
        Say what would be sent, sending nothing.

        Raises:
            EnvironmentUnfit: no address to ask at, or no model of this provider.
        """
        name = request.model.removeprefix(PREFIX)
        if name == request.model or not name:
            raise EnvironmentUnfit(f"{request.model!r} is no scripted model; name it scripted/NAME")
        self._address(request)
        return prepare(request, name)

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        """Send the body, once, and read the response to its end."""
        request = httpx2.Request(
            "POST",
            f"{self._address(prepared.request)}/chat/completions",
            headers={"content-type": "application/json", **tracing_headers(prepared.request)},
            content=msgspec.json.encode(prepared.body),
        )
        outcome = self._loop.run(lambda: self._exchange.send(request, hear), cancellation)
        return outcome or classify.failure("cancelled", transient=False)

    def close(self) -> None:
        """Let go of connections and threads."""
        self._loop.close(self._exchange.aclose)

    def _address(self, request: ModelRequest) -> str:
        address = request.api_base or self._api_base
        if not address:
            raise EnvironmentUnfit(
                f"no address for {request.model!r}: start one with `mulligan scripted-model "
                "SCRIPT` and set MULLIGAN_API_BASE to the URL that it prints"
            )
        return address.rstrip("/")
