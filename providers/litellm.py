"""
Models behind litellm, with its hands tied.

litellm retries, renames parameters, drops others, moves some models to another API through a client
of its own, and invents what a response lacks. Here it gets the finished body as `extra_body`, which
it passes on as it is, and otherwise the model's name alone; the tap compares what it made of them,
sends it once, and reads the response. Importing it costs seconds of CPU, so that happens with the
first request.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import httpx2

from mulligan.errors import EnvironmentUnfit
from mulligan.providers import classify
from mulligan.providers.body import prepare, tracing_headers
from mulligan.providers.endpoints import Endpoint, address_of, endpoint_of
from mulligan.providers.event_loop import ModelLoop
from mulligan.providers.exchange import Deadlines, Exchange
from mulligan.providers.port import Answer, Cancellation, Failure, Hear, ModelRequest, Prepared
from mulligan.providers.repetition import DEFAULT_REPETITION, Repetition
from mulligan.providers.tap import WireTap, body_changed

KeyLookup = Callable[[str], str | None]
"""The value of a key by the name of its variable (`OPENAI_API_KEY`), or None."""

BESIDE_THE_TAP = ("ft:babbage-002", "ft:davinci-002")
"""Parts of names that litellm sends to another API, through another client; no chat models."""
NO_KEY = "none"
"""What is sent to servers that need no key; the library refuses to send nothing."""
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "HF_HUB_OFFLINE": "1",
}
"""Keeps litellm from fetching a price list and tokenizers when it is imported and used."""
LOGGERS = (
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
    "openai",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
)
"""They print prompts, arguments and headers."""

_import_lock = threading.Lock()


class LiteLLMProvider:
    """A provider for every model of `endpoints.py`; `keys` looks up their keys, one a request."""

    def __init__(
        self,
        keys: KeyLookup,
        deadlines: Deadlines | None = None,
        repetition: Repetition = DEFAULT_REPETITION,
    ) -> None:
        self._keys = keys
        self._loop = ModelLoop()
        self._exchange = Exchange(deadlines or Deadlines(), repetition)

    def prepare(self, request: ModelRequest) -> Prepared:
        """
        Say what would be sent, sending nothing.

        Raises:
            EnvironmentUnfit: no provider, no address or no key for this model.
        """
        endpoint, model = endpoint_of(request.model)
        address_of(endpoint, request.model, request.api_base)
        self._key(endpoint, request.model)
        return prepare(request, model)

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        """Send the body, once, and read the response to its end."""
        endpoint, model = endpoint_of(prepared.request.model)
        if not prepared.model == prepared.body.get("model") == model:
            return body_changed(["model"])
        if any(name in model for name in BESIDE_THE_TAP):
            return classify.failure("not_sent", transient=False)
        library = import_litellm()
        outcome = self._loop.run(lambda: self._ask(library, prepared, endpoint, hear), cancellation)
        return outcome or classify.failure("cancelled", transient=False)

    def close(self) -> None:
        """Let go of connections and threads."""
        self._loop.close(self._exchange.aclose)

    async def _ask(
        self, library: Any, prepared: Prepared, endpoint: Endpoint, hear: Hear | None
    ) -> Answer | Failure:
        request = prepared.request
        address = address_of(endpoint, request.model, request.api_base)
        headers = tracing_headers(request)
        if endpoint.model_header is not None:
            headers[endpoint.model_header] = prepared.model
        tap = WireTap(
            self._exchange,
            url=f"{address}/chat/completions",
            body=prepared.body,
            headers=headers,
            hear=hear,
        )
        await _complete(library, tap, address, self._key(endpoint, request.model), prepared.body)
        return tap.outcome or classify.failure("not_sent", transient=False)

    def _key(self, endpoint: Endpoint, model: str) -> str:
        if endpoint.key_name is None:
            return NO_KEY
        key = (self._keys(endpoint.key_name) or "").strip()
        if not key:
            raise EnvironmentUnfit(
                f"no key for the model {model!r}: set {endpoint.key_name} in the environment "
                "(to any word, if the server at `api_base` needs none)"
            )
        return key


def import_litellm() -> Any:
    """Import litellm, offline and quiet; takes about five seconds of CPU the first time."""
    with _import_lock:
        os.environ.update(ENVIRONMENT)
        library: Any = importlib.import_module("litellm")
        library.suppress_debug_info = True
        library.telemetry = False
        library.drop_params = library.modify_params = False
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return library


async def _complete(
    library: Any, tap: WireTap, address: str, key: str, body: dict[str, Any]
) -> None:
    """Have litellm make the request. What it returns or raises is no evidence: the tap has it."""
    openai = importlib.import_module("openai")
    async with httpx2.AsyncClient(
        transport=tap, trust_env=False, follow_redirects=False, timeout=None
    ) as http:
        client = openai.AsyncOpenAI(
            api_key=key, base_url=address, http_client=http, max_retries=0, timeout=None
        )
        try:
            made = await library.acompletion(
                model=f"openai/{body['model']}",
                # Those of `extra_body` take their place; litellm changes the ones it is handed.
                messages=[{"role": "user", "content": ""}],
                stream=bool(body.get("stream")),
                extra_body=body,
                api_base=address,
                api_key=key,
                client=client,
                max_retries=0,
                num_retries=0,
                # Models of the Responses API would go there, past the tap and with retries.
                _skip_responses_api_bridge=True,
            )
        except Exception:
            # Its texts quote the provider and its context holds the key: nothing of it is kept.
            return
        if hasattr(made, "aclose"):
            await made.aclose()
