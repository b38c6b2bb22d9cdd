"""
What would be sent, and the errors of those who can't be asked: nothing is sent, nothing imported.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mulligan.errors import EnvironmentUnfit, InvalidInput
from mulligan.events.payload import canonical, digest_of
from mulligan.providers.endpoints import ENDPOINTS
from mulligan.providers.port import Message, ModelRequest
from mulligan.providers.router import ModelRouter

KEYS = {"OPENAI_API_KEY": "sk-canary", "MISTRAL_API_KEY": "  "}


def request(name: str, **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {
        "request_id": "a#1",
        "model": name,
        "messages": (Message(role="user", content="q"),),
    }
    return ModelRequest(**(fields | changes))


@pytest.fixture
def router() -> ModelRouter:
    return ModelRouter(KEYS.get)


def test_the_body_and_its_digest(router: ModelRouter) -> None:
    """REC-21."""
    prepared = router.prepare(request("openai/some-model", parameters={"max_tokens": 4}))

    assert {
        "model": "some-model",
        "messages": [{"role": "user", "content": "q"}],
        "max_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
    } == prepared.body
    assert digest_of(canonical(prepared.body)) == prepared.digest
    assert "messages" not in prepared.sent


def test_what_is_not_streamed_says_nothing_of_streams(router: ModelRouter) -> None:
    """OVR-5."""
    assert {} == router.prepare(request("openai/m", stream=False)).sent


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt-4o", "no provider for the model 'gpt-4o': name it PROVIDER/ID"),
        ("opnai/gpt", "no provider for the model 'opnai/gpt'"),
        ("openai/", "no provider for the model 'openai/'"),
        ("scripted/", "name it scripted/NAME"),
        ("scripted/x", "mulligan scripted-model"),
        ("xai/grok-4", "set XAI_API_KEY"),
        ("mistral/large", "set MISTRAL_API_KEY"),
        ("hosted_vllm/m", "set `api_base`"),
    ],
)
def test_who_can_not_be_asked_is_an_error_that_says_what_to_do(
    router: ModelRouter, name: str, says: str
) -> None:
    with pytest.raises(EnvironmentUnfit) as caught:
        router.prepare(request(name))

    assert says in str(caught.value)
    assert 5 == caught.value.exit_code
    assert "sk-canary" not in str(caught.value)


def test_servers_of_ones_own_need_no_key(router: ModelRouter) -> None:
    assert "llama3" == router.prepare(request("ollama/llama3")).model


@pytest.mark.parametrize("name", ["messages", "model", "stream", "response_format"])
def test_what_mulligan_sets_can_not_be_a_parameter(router: ModelRouter, name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        router.prepare(request("openai/m", parameters={name: "x"}))


def test_addresses_end_without_a_slash() -> None:
    assert not [e for e in ENDPOINTS.values() if e.api_base and e.api_base.endswith("/")]


def test_preparing_imports_neither_litellm_nor_openai() -> None:
    code = (
        "import sys\n"
        "from mulligan.providers.router import ModelRouter\n"
        "from mulligan.providers.port import ModelRequest\n"
        "ModelRouter({'OPENAI_API_KEY': 'k'}.get).prepare("
        "ModelRequest(request_id='a#1', model='openai/m', messages=()))\n"
        "print({'litellm', 'openai', 'starlette', 'uvicorn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert "set()\n" == done.stdout, done.stderr
