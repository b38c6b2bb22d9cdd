"""
The lanes that a deployment's limits make: which of them a request has to wait in, if any.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from urllib.parse import urlsplit

from mulligan.errors import InvalidInput
from mulligan.events.slots import Lane
from mulligan.providers.endpoints import ENDPOINTS
from mulligan.providers.port import ModelRequest
from mulligan.settings import RequestLimit

PROVIDERS = (*ENDPOINTS, "scripted")


class Lanes:
    """
    A model with limits of its own has a lane of its own; those of a provider with limits share one.
    The same model at another address is another lane: it is another server.

    Raises:
        InvalidInput: limits for what is no provider, or no model's full name.
    """

    def __init__(self, limits: Mapping[str, RequestLimit]) -> None:
        for name in limits:
            _check(name)
        self._limits = dict(limits)

    def of(self, request: ModelRequest) -> Lane | None:
        """The lane of a request as it will leave; None: nothing limits it."""
        provider = request.model.partition("/")[0]
        name = request.model if request.model in self._limits else provider
        if name not in self._limits:
            return None
        return self.named(f"{name} at {_place(request.api_base)}" if request.api_base else name)

    def named(self, lane: str) -> Lane:
        """The lane of this name, with the limits that are set now, if any."""
        limit = self._limits.get(lane.partition(" at ")[0])
        if limit is None:
            return Lane(name=lane)
        return Lane(name=lane, concurrent=limit.concurrent, per_minute=limit.per_minute)


def _check(name: str) -> None:
    provider, slash, model_id = name.partition("/")
    if provider not in PROVIDERS:
        near = get_close_matches(provider, PROVIDERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(PROVIDERS)}"
        raise InvalidInput(f"MULLIGAN_MODEL_LIMITS: {name!r} names no provider ({hint})")
    if slash and not model_id:
        raise InvalidInput(f"MULLIGAN_MODEL_LIMITS: {name!r} names no model; leave the / out")


def _place(api_base: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(api_base)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
