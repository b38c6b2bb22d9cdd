"""
The provider without a wire.
"""

from __future__ import annotations

import json
from typing import Any

from mulligan.providers.port import Answer, Cancellation, Failure, ModelRequest, Provider, ToolOffer
from mulligan.testing.scripted_provider import ScriptedProvider

SUBMIT = ToolOffer(name="submit_output", description="", parameters={})


def ask(provider: Provider, **changes: Any) -> Answer | Failure:
    request = ModelRequest(request_id="a#1", model="openai/m", messages=(), **changes)
    return provider.ask(provider.prepare(request), Cancellation())


def test_answers_come_in_order_and_in_any_form() -> None:
    whole = Answer(finish_reason="length", terminal=True, text="")
    provider = ScriptedProvider([whole, "text", {"a": 1}, lambda request: request.model])

    assert whole == ask(provider)
    text, submitted, made = ask(provider), ask(provider, tools=(SUBMIT,)), ask(provider)

    assert isinstance(text, Answer)
    assert ("stop", "text", None) == (text.finish_reason, text.text, text.usage)
    assert isinstance(submitted, Answer)
    assert {"output": {"a": 1}, "assistant_message": None} == json.loads(
        submitted.calls[0].arguments
    )
    assert isinstance(made, Answer)
    assert "openai/m" == made.text
    assert 4 == len(provider.requests)


def test_a_request_beyond_the_answers_fails_for_good() -> None:
    result = ask(ScriptedProvider([]))

    assert isinstance(result, Failure)
    assert ("script_exhausted", False) == (result.cause.kind, result.transient)


def test_what_was_cancelled_gets_no_answer() -> None:
    provider = ScriptedProvider(["text"])
    cancellation = Cancellation()
    cancellation.cancel()
    request = ModelRequest(request_id="a#1", model="openai/m", messages=())

    result = provider.ask(provider.prepare(request), cancellation)

    assert isinstance(result, Failure)
    assert "cancelled" == result.cause.kind
