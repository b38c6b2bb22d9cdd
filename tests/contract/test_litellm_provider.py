"""
What only the provider behind litellm can get wrong: litellm's own ideas of a request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import httpx2
import msgspec
import pytest

from mulligan.providers.exchange import Deadlines, Exchange
from mulligan.providers.litellm import LiteLLMProvider
from mulligan.providers.port import Answer, Cancellation, Failure, Message, ModelRequest
from mulligan.providers.tap import WireTap
from mulligan.testing.scripted_model import ScriptedModel

KEYS = {"OPENAI_API_KEY": "sk-canary", "GROK_API_KEY": "sk-canary"}


@pytest.fixture(scope="module")
def provider() -> Iterator[LiteLLMProvider]:
    provider = LiteLLMProvider(KEYS.get)
    yield provider
    provider.close()


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel({"turns": [{"text": "ok", "times": "always"}]}) as model:
        yield model


def request(model: ScriptedModel, name: str, **parameters: object) -> ModelRequest:
    messages = (Message(role="system", content="s"), Message(role="user", content="q"))
    return ModelRequest(
        request_id="a#1", model=name, messages=messages, parameters=parameters, api_base=model.url
    )


@pytest.mark.parametrize(
    "name",
    [
        "o3",  # would turn the system's message into a user's
        "gpt-5-mini",  # would rename max_tokens and refuse a temperature
        "gpt-5-codex",  # would go to another API through another client
        "o1-pro",
        "gpt-3.5-turbo-instruct",
        "x-ai/grok-4",
        "openai/gpt-oss-120b",
        "no-such-model",
    ],
)
def test_models_that_litellm_has_rules_for_are_asked_as_prepared(
    provider: LiteLLMProvider, model: ScriptedModel, name: str
) -> None:
    """REC-20, REC-26: the id selected stands in the body, and parameters are sent unchanged."""
    prepared = provider.prepare(request(model, f"openai/{name}", max_tokens=5, temperature=0.3))

    assert isinstance(provider.ask(prepared, Cancellation()), Answer)
    assert [prepared.body] == [r.body for r in model.requests]
    assert name == prepared.body["model"]


@pytest.mark.parametrize("name", ["gpt-mini-latest", "responses/gpt-5"])
def test_a_model_that_litellm_would_replace_is_not_asked(
    provider: LiteLLMProvider, model: ScriptedModel, name: str
) -> None:
    """REC-26: the two agree or the request is not sent."""
    result = provider.ask(provider.prepare(request(model, f"openai/{name}")), Cancellation())

    assert isinstance(result, Failure)
    assert ("body_changed", False) == (result.cause.kind, result.transient)
    assert result.cause.message.endswith("(model)")
    assert [] == model.requests


@pytest.mark.parametrize("stream", [True, False])
def test_nothing_leaves_beside_the_tap(provider: LiteLLMProvider, stream: bool) -> None:
    """REC-2: models of another API, which litellm would ask through a client of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        asked = ModelRequest(
            request_id="a#1",
            model="openai/ft:babbage-002:org::id",
            messages=(Message(role="user", content="q"),),
            api_base=f"http://127.0.0.1:{listener.getsockname()[1]}/v1",
            stream=stream,
        )

        result = provider.ask(provider.prepare(asked), Cancellation())

        assert isinstance(result, Failure)
        assert ("not_sent", False) == (result.cause.kind, result.transient)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_another_model_in_the_body_is_not_sent(
    provider: LiteLLMProvider, model: ScriptedModel
) -> None:
    """REC-26."""
    prepared = provider.prepare(request(model, "openai/asked"))
    changed = msgspec.structs.replace(prepared, body=prepared.body | {"model": "other"})

    result = provider.ask(changed, Cancellation())

    assert isinstance(result, Failure)
    assert result.cause.message.endswith("(model)")
    assert [] == model.requests


def test_a_model_routed_by_header_stands_there_as_well(
    provider: LiteLLMProvider, model: ScriptedModel
) -> None:
    """REC-26: a Grok subscription."""
    provider.ask(provider.prepare(request(model, "grok/grok-build")), Cancellation())

    received = model.requests[0]
    assert "grok-build" == received.headers["x-grok-model-override"] == received.body["model"]


def test_variables_meant_for_another_address_do_not_apply(
    provider: LiteLLMProvider, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another")

    result = provider.ask(provider.prepare(request(model, "openai/m")), Cancellation())

    assert isinstance(result, Answer)
    assert "org-of-another" not in model.requests[0].headers.values()


def test_a_second_request_on_the_tap_is_refused(model: ScriptedModel) -> None:
    """REC-2: whoever retries above it, one request leaves."""
    body = {"model": "m", "messages": []}
    url = f"{model.url}/chat/completions"

    async def ask_twice() -> None:
        exchange = Exchange(Deadlines())
        tap = WireTap(exchange, url=url, body=body, headers={})
        async with httpx2.AsyncClient(transport=tap, trust_env=False) as client:
            await client.post(url, json=body)
            with pytest.raises(httpx2.RequestError, match="second request was refused"):
                await client.post(url, json=body)
        await exchange.aclose()

    asyncio.run(ask_twice())

    assert 1 == len(model.requests)


@pytest.mark.parametrize("change", [{"max_tokens": 6}, {"seed": 1}, {"messages": [{}]}])
def test_a_changed_body_does_not_leave(model: ScriptedModel, change: dict[str, object]) -> None:
    """REC-20: the refusal names what differs, and quotes nothing of it."""
    body = {"model": "m", "messages": [], "max_tokens": 5}
    url = f"{model.url}/chat/completions"

    async def ask() -> Answer | Failure | None:
        tap = WireTap(Exchange(Deadlines()), url=url, body=body, headers={})
        async with httpx2.AsyncClient(transport=tap, trust_env=False) as client:
            await client.post(url, json=body | change)
        return tap.outcome

    outcome = asyncio.run(ask())

    assert isinstance(outcome, Failure)
    assert outcome.cause.message.endswith(f"({next(iter(change))})")
    assert [] == model.requests
