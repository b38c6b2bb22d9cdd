"""
One provider for all models: the name of a model says who is asked.
"""

from __future__ import annotations

from msgspec.structs import replace

from mulligan.providers.exchange import Deadlines
from mulligan.providers.litellm import KeyLookup, LiteLLMProvider
from mulligan.providers.port import (
    Answer,
    Cancellation,
    Failure,
    Hear,
    ModelRequest,
    Prepared,
    Provider,
)
from mulligan.providers.repetition import DEFAULT_REPETITION, Repetition
from mulligan.providers.scripted import PREFIX, ScriptedModelProvider

OWN_SERVERS = frozenset({"hosted_vllm", "lm_studio", "ollama", "openai", "scripted"})
"""Providers whose models users run themselves, or reach through an OpenAI-compatible server."""


class ModelRouter:
    """
    Asks `scripted/<name>` directly and everything else through litellm (imported by the first
    request that needs it). `api_base` is where a model of `OWN_SERVERS` is asked whose request has
    none of its own: a key of any other provider is not sent there. `keys` looks up the value of a
    key by the name of its variable.
    """

    def __init__(
        self,
        keys: KeyLookup,
        *,
        api_base: str | None = None,
        deadlines: Deadlines | None = None,
        repetition: Repetition = DEFAULT_REPETITION,
    ) -> None:
        self._api_base = api_base
        self._scripted = ScriptedModelProvider(deadlines=deadlines, repetition=repetition)
        self._litellm = LiteLLMProvider(keys, deadlines, repetition)

    def prepare(self, request: ModelRequest) -> Prepared:
        """
        Say what would be sent, sending nothing.

        Raises:
            EnvironmentUnfit: no provider, no address or no key for this model.
        """
        own = request.model.partition("/")[0] in OWN_SERVERS
        if own and request.api_base is None and self._api_base is not None:
            request = replace(request, api_base=self._api_base)
        return self._of(request).prepare(request)

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        """Send the body, once, and read the response to its end."""
        return self._of(prepared.request).ask(prepared, cancellation, hear)

    def close(self) -> None:
        """Let go of connections and threads."""
        self._scripted.close()
        self._litellm.close()

    def _of(self, request: ModelRequest) -> Provider:
        return self._scripted if request.model.startswith(PREFIX) else self._litellm
