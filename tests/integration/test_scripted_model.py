"""
The scripted model's own routes, over HTTP.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any

import httpx2
import pytest

from mulligan.errors import EnvironmentUnfit
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.waiting import until

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "q"}]}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel("turns: [{text: one}]") as model:
        yield model


def post(model: ScriptedModel, path: str, **rest: Any) -> httpx2.Response:
    return httpx2.post(f"{model.url.removesuffix('/v1')}{path}", trust_env=False, **rest)


def get(model: ScriptedModel, path: str) -> Any:
    return httpx2.get(f"{model.url.removesuffix('/v1')}{path}", trust_env=False).json()


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_completions_are_recorded_with_keys_masked(model: ScriptedModel, prefix: str) -> None:
    secrets = {"authorization": "Bearer sk-canary", "api-key": "sk-canary"}

    response = post(model, f"{prefix}/chat/completions", json=ASK, headers=secrets)

    assert "one" == response.json()["choices"][0]["message"]["content"]
    (received,) = get(model, "/__requests")
    assert ASK == received["body"]
    assert ("***", "***") == (received["headers"]["authorization"], received["headers"]["api-key"])
    about = {"time", "path", "headers", "body", "turn", "outcome", "concurrent", "over_limit"}
    assert about == received.keys()
    assert "sk-canary" not in repr(model.requests)


def test_a_request_that_no_turn_is_left_for_is_an_error(model: ScriptedModel) -> None:
    post(model, "/v1/chat/completions", json=ASK)

    response = post(model, "/v1/chat/completions", json=ASK)

    assert 400 == response.status_code
    assert "script_exhausted" == response.json()["error"]["type"]
    assert 2 == len(model.requests)


def test_more_requests_at_once_than_it_takes_are_answered_with_429() -> None:
    slow = {"text": "one", "delay_ms": 60_000, "times": "always"}
    with ScriptedModel({"turns": [slow], "max_concurrent": 2}) as model:
        for _ in range(2):
            Thread(target=suppressed, args=(model,), daemon=True).start()
        until(lambda: len(model.requests) == 2)

        refused = post(model, "/v1/chat/completions", json=ASK)

        assert 429 == refused.status_code
        assert "rate_limit_exceeded" == refused.json()["error"]["type"]
        assert [False, False, True] == [one.over_limit for one in model.requests]
        assert [1, 2, 3] == [one.concurrent for one in model.requests]
        assert [0, 0, None] == [one.turn for one in model.requests]


def suppressed(model: ScriptedModel) -> None:
    """Ask, and hear nothing before the server ends."""
    with contextlib.suppress(httpx2.HTTPError):
        post(model, "/v1/chat/completions", json=ASK, timeout=60)


def test_another_script_can_be_set(model: ScriptedModel) -> None:
    assert 200 == post(model, "/__script", content='{"turns": [{"text": "two"}]}').status_code

    answered = post(model, "/v1/chat/completions", json=ASK).json()

    assert "two" == answered["choices"][0]["message"]["content"]


def test_a_wrong_script_is_refused_and_the_old_one_stays(model: ScriptedModel) -> None:
    response = post(model, "/__script", content="turns: [{txt: a}]")

    assert 422 == response.status_code
    assert "did you mean text?" in response.json()["error"]["message"]
    assert 200 == post(model, "/v1/chat/completions", json=ASK).status_code


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": "m"}', "not json"])
def test_what_is_no_completion_request_is_refused(model: ScriptedModel, content: str) -> None:
    response = post(model, "/v1/chat/completions", content=content)

    assert (400, []) == (response.status_code, model.requests)


def test_models_are_listed(model: ScriptedModel) -> None:
    assert ["scripted"] == [entry["id"] for entry in get(model, "/v1/models")["data"]]


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentUnfit, match=f"can't listen on port {port}"):
            ScriptedModel([], port=port).start()
