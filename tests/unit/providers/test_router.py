"""Who is asked, and where: nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mulligan.errors import EnvironmentUnfit
from mulligan.providers.port import ModelRequest
from mulligan.providers.router import ModelRouter

ADDRESS = "http://127.0.0.1:9/v1"


@pytest.fixture
def router() -> Iterator[ModelRouter]:
    keys = {"OPENAI_API_KEY": "key-1", "GROQ_API_KEY": "key-2"}
    made = ModelRouter(keys.get, api_base=ADDRESS)
    yield made
    made.close()


def request(model: str, api_base: str | None = None) -> ModelRequest:
    return ModelRequest(request_id="a#1", model=model, messages=(), api_base=api_base)


@pytest.mark.parametrize("model", ["scripted/any", "openai/some-model", "ollama/some-model"])
def test_the_set_address_is_for_servers_of_ones_own(router: ModelRouter, model: str) -> None:
    assert ADDRESS == router.prepare(request(model)).request.api_base


def test_the_key_of_a_hosted_provider_is_not_sent_to_the_set_address(router: ModelRouter) -> None:
    assert router.prepare(request("groq/some-model")).request.api_base is None


def test_a_request_with_an_address_of_its_own_keeps_it(router: ModelRouter) -> None:
    own = "http://127.0.0.1:10/v1"

    assert own == router.prepare(request("openai/some-model", own)).request.api_base


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("", "no model is named"),
        ("nobody/some-model", "nobody/some-model"),
        ("mistral/some-model", "MISTRAL_API_KEY"),
    ],
)
def test_a_model_that_can_not_be_asked_is_an_error_that_says_what_is_missing(
    router: ModelRouter, model: str, said: str
) -> None:
    with pytest.raises(EnvironmentUnfit, match=said):
        router.prepare(request(model))
