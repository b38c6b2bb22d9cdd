"""
The provider port, one suite for every implementation, over real HTTP against the scripted model.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from mulligan.events.facts import Usage
from mulligan.providers.exchange import Deadlines
from mulligan.providers.litellm import LiteLLMProvider
from mulligan.providers.port import (
    Answer,
    Cancellation,
    Failure,
    Message,
    ModelRequest,
    Piece,
    Prepared,
    Provider,
    ToolCall,
    ToolOffer,
)
from mulligan.providers.router import ModelRouter
from mulligan.providers.scripted import ScriptedModelProvider
from mulligan.testing.replies import reply_to
from mulligan.testing.script import Turn
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.wire_format import DONE

KEY = "sk-CANARY-KEY"
CANARY = "CANARY"
WAIT_SECONDS = 10.0
PATIENT = Deadlines(first_byte_ms=30_000, idle_ms=1_000)
HASTY = Deadlines(first_byte_ms=2_000, idle_ms=300)
SUBMIT = ToolOffer(
    name="submit_output",
    description="Submit the output.",
    parameters={"type": "object", "properties": {"output": {"type": "object"}}},
)

Make = Callable[[Deadlines], Provider]
MAKERS: dict[str, tuple[Make, str]] = {
    "scripted": (
        lambda deadlines: ScriptedModelProvider(deadlines=deadlines),
        "scripted/some-model",
    ),
    "litellm": (
        lambda deadlines: LiteLLMProvider({"OPENAI_API_KEY": KEY}.get, deadlines),
        "openai/some-model",
    ),
}


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


class Subject:
    """A provider, the name of a model of it, and the server that it asks."""

    def __init__(
        self, provider: Provider, hasty: Provider, name: str, model: ScriptedModel
    ) -> None:
        self.provider = provider
        self.hasty = hasty
        self.name = name
        self.model = model

    def play(self, **turn: Any) -> None:
        """The next request gets this turn; another would get an error."""
        self.before = len(self.model.requests)
        self.model.play([turn])

    def request(self, **changes: Any) -> ModelRequest:
        fields: dict[str, Any] = {
            "request_id": "collect#1",
            "model": self.name,
            "messages": (Message(role="user", content=f"{CANARY}-prompt"),),
            "tools": (SUBMIT,),
            "api_base": self.model.url,
            "node": "collect",
            "attempt": 2,
        }
        return ModelRequest(**(fields | changes))

    def ask(self, *, hasty: bool = False, **changes: Any) -> Answer | Failure:
        provider = self.hasty if hasty else self.provider
        return provider.ask(provider.prepare(self.request(**changes)), Cancellation())

    def answer(self, **changes: Any) -> Answer:
        result = self.ask(**changes)
        assert isinstance(result, Answer)
        return result

    def failure(self, **changes: Any) -> Failure:
        result = self.ask(**changes)
        assert isinstance(result, Failure)
        return result

    @property
    def sends(self) -> int:
        """How many requests the server has received since `play`."""
        return len(self.model.requests) - self.before


@pytest.fixture(scope="module", params=list(MAKERS))
def made(request: pytest.FixtureRequest) -> Iterator[tuple[Provider, Provider, str]]:
    """The providers of the module, which tests share as the actors of a process do."""
    make, name = MAKERS[request.param]
    provider, hasty = make(PATIENT), make(HASTY)
    yield provider, hasty, name
    provider.close()
    hasty.close()


@pytest.fixture
def subject(made: tuple[Provider, Provider, str], model: ScriptedModel) -> Subject:
    return Subject(*made, model)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens elsewhere, with a bound."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.005)


@pytest.mark.parametrize("stream", [True, False])
def test_a_submitted_output(subject: Subject, stream: bool) -> None:
    """REC-21: what is served, used and why it stopped come from the wire."""
    subject.play(
        json={"a": 1}, usage={"prompt_tokens": 3, "completion_tokens": 5}, finish_reason="stop"
    )

    answer = subject.answer(stream=stream)

    assert ("stop", True, "") == (answer.finish_reason, answer.terminal, answer.text)
    assert ["submit_output"] == [call.name for call in answer.calls]
    assert '{"output":{"a":1},"assistant_message":null}' == answer.calls[0].arguments
    assert Usage(prompt_tokens=3, completion_tokens=5) == answer.usage
    assert "some-model" == answer.served_model
    assert 1 == subject.sends


def test_the_body_that_arrives_is_the_prepared_one(subject: Subject) -> None:
    """REC-20, REC-21, REC-26: parameters are neither renamed, dropped nor added."""
    subject.play(text="ok")
    call = ToolCall("c1", "search", '{"q": "x"}')
    request = subject.request(
        messages=(
            Message(role="system", content="s"),
            Message(role="assistant", calls=(call,)),
            Message(role="tool", content="r", tool_call_id="c1"),
        ),
        parameters={"max_tokens": 7, "temperature": 0.3, "user": "u", "top_k": 4, "metadata": {}},
    )

    prepared = subject.provider.prepare(request)
    subject.provider.ask(prepared, Cancellation())

    assert subject.model.requests[-1].body == prepared.body
    assert ("some-model", "some-model") == (prepared.model, prepared.body["model"])
    sent = {k: v for k, v in prepared.body.items() if k not in ("model", "messages", "tools")}
    assert sent == prepared.sent
    assert {"max_tokens": 7, "temperature": 0.3}.items() <= prepared.sent.items()


@pytest.mark.parametrize(("mode", "key"), [("native", "response_format"), ("tool", "tools")])
def test_output_modes(subject: Subject, mode: str, key: str) -> None:
    """REC-24: the schema goes to the provider in `native` mode only."""
    subject.play(text="{}")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = (SUBMIT,) if mode == "tool" else ()

    subject.answer(mode=mode, output_schema=schema, tools=tools)

    body = subject.model.requests[-1].body
    assert {key} == body.keys() & {"tools", "response_format"}
    if mode == "native":
        assert {"name": "output", "strict": True, "schema": schema} == body[key]["json_schema"]


def test_headers_say_whose_request_it_is(subject: Subject) -> None:
    """They are headers only: the body is the model's business."""
    subject.play(text="ok")

    subject.answer(node="collect \u00e9", request_id="part[3]#4")

    headers = subject.model.requests[-1].headers
    assert "collect %C3%A9" == headers["x-mulligan-node"]
    assert "2" == headers["x-mulligan-attempt"]
    assert ("part[3]", "part[3]#4") == (
        headers["x-mulligan-invocation"],
        headers["x-mulligan-request"],
    )
    assert "x-stainless-os" not in headers


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reason", ["length", "stop", "made_up", None])
def test_the_finish_reason_is_the_one_received(
    subject: Subject, reason: str | None, stream: bool
) -> None:
    """REC-11, REC-12: never defaulted, never relabelled, calls or not."""
    subject.play(tool_calls=[{"name": "f", "arguments": "{}"}], finish_reason=reason)

    answer = subject.answer(stream=stream)

    assert (reason, reason is not None) == (answer.finish_reason, answer.terminal)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}, {"completion_tokens": 3}]
)
def test_usage_is_the_one_received(
    subject: Subject, usage: dict[str, int] | None, stream: bool
) -> None:
    """REC-21: not sent is None, 0 is 0."""
    subject.play(text="ok", usage=usage)

    expected = None if usage is None else msgspec.convert(usage, Usage)
    assert expected == subject.answer(stream=stream).usage


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "cut"},
        {"kind": "eof"},
        {"kind": "eof", "done": True},
        {"kind": "empty"},
        {"kind": "empty", "done": True},
        {"kind": "cut", "at_byte": 0},
    ],
    ids=str,
)
def test_an_end_without_terminal_event_is_no_success(
    subject: Subject, fault: dict[str, Any], stream: bool
) -> None:
    """REC-12."""
    subject.play(text="hello world", fault=fault)

    answer = subject.answer(stream=stream)

    assert (None, False, None) == (answer.finish_reason, answer.terminal, answer.usage)
    assert 1 == subject.sends


def test_partial_arguments_stay_raw_and_are_not_terminal(subject: Subject) -> None:
    """REC-12: nothing is closed or replaced by `{}`."""
    arguments = '{"path": "a", "content": "' + "a" * 200
    subject.play(tool_calls=[{"name": "f", "arguments": arguments}], fault={"kind": "eof"})

    answer = subject.answer()

    assert (arguments, False) == (answer.calls[0].arguments, answer.terminal)


def test_a_finish_reason_without_done_is_terminal(subject: Subject) -> None:
    subject.play(text="whole", fault={"kind": "no_done"})

    answer = subject.answer()

    assert ("stop", True, "whole") == (answer.finish_reason, answer.terminal, answer.text)


@pytest.mark.parametrize("kind", ["stall", "reset", "cut"])
def test_a_response_that_breaks_after_its_finish_reason_is_whole(
    subject: Subject, kind: str
) -> None:
    """REC-12: the terminal event was seen; what is lost is usage, which stays unknown."""
    turn = Turn(text="whole", usage=None)
    body = subject.hasty.prepare(subject.request()).body
    length = len(b"".join(reply_to(turn, body, 0).pieces)) - len(DONE)
    subject.play(text="whole", usage=None, fault={"kind": kind, "at_byte": length})

    answer = subject.answer(hasty=True)

    assert ("whole", True, None) == (answer.text, answer.terminal, answer.usage)


FAILURES: list[tuple[dict[str, Any], str, bool, int | None]] = [
    ({"kind": "reset"}, "reset", True, None),
    ({"kind": "reset", "at_byte": 150}, "reset", True, None),
    ({"kind": "stall", "at_byte": 1}, "idle_timeout", True, None),
    ({"kind": "stall", "at_byte": 0}, "first_byte_timeout", True, None),
    ({"kind": "stall", "headers": False}, "first_byte_timeout", True, None),
    ({"kind": "status", "status": 408}, "conflict", True, 408),
    ({"kind": "status", "status": 409}, "conflict", True, 409),
    ({"kind": "status", "status": 425}, "conflict", True, 425),
    ({"kind": "status", "status": 429}, "rate_limit", True, 429),
    ({"kind": "status", "status": 429, "quota": True}, "quota", False, 429),
    ({"kind": "status", "status": 500}, "unavailable", True, 500),
    ({"kind": "status", "status": 529}, "unavailable", True, 529),
    ({"kind": "status", "status": 400}, "bad_request", False, 400),
    ({"kind": "status", "status": 401}, "unauthorized", False, 401),
    ({"kind": "status", "status": 403}, "forbidden", False, 403),
    ({"kind": "status", "status": 404}, "not_found", False, 404),
    ({"kind": "status", "status": 400, "code": "tool_use_failed"}, "malformed_call", False, 400),
    ({"kind": "status", "status": 307}, "redirect", False, 307),
    ({"kind": "status", "status": 200}, "provider_error", True, None),
    ({"kind": "html"}, "html", True, 200),
    ({"kind": "html", "status": 502}, "unavailable", True, 502),
]
IN_STREAM: list[tuple[dict[str, Any], str, bool, int | None]] = [
    ({"kind": "error_event"}, "unavailable", True, 502),
    ({"kind": "error_event", "status": None}, "provider_error", True, None),
    ({"kind": "error_event", "status": None, "type": "overloaded"}, "provider_error", True, None),
    ({"kind": "error_event", "status": 400}, "bad_request", False, 400),
    (
        {"kind": "error_event", "status": None, "code": "insufficient_quota"},
        "quota",
        False,
        None,
    ),
    ({"kind": "garbage"}, "garbled", True, 200),
]


@pytest.mark.parametrize(
    ("fault", "kind", "transient", "status", "stream"),
    [(*failure, stream) for failure in FAILURES for stream in (True, False)]
    + [(*failure, True) for failure in IN_STREAM],
    ids=str,
)
def test_a_failure_is_classified_by_the_wire_and_sent_once(
    subject: Subject,
    fault: dict[str, Any],
    kind: str,
    transient: bool,
    status: int | None,
    stream: bool,
) -> None:
    """REC-2, REC-17, REC-22: one request, whatever happens; and a cause of fixed words."""
    said = {"message": f"{CANARY}-provider"} if fault["kind"] in ("status", "error_event") else {}
    subject.play(text=f"{CANARY}-answer", fault=fault | said)

    failure = subject.failure(stream=stream, hasty=fault["kind"] == "stall")

    assert (kind, transient, status) == (
        failure.cause.kind,
        failure.transient,
        failure.cause.status,
    )
    assert CANARY not in msgspec.json.encode(failure).decode() + repr(failure) + str(failure)
    assert 1 == subject.sends


@pytest.mark.parametrize(("value", "ms"), [(2, 2_000), (0.5, 500), (None, None), ("soon", None)])
def test_retry_after_is_reported(subject: Subject, value: Any, ms: int | None) -> None:
    """REC-17."""
    subject.play(fault={"kind": "status", "status": 429, "retry_after": value})

    assert ms == subject.failure().retry_after_ms


def test_no_server_is_a_transient_failure(subject: Subject) -> None:
    """REC-17."""
    with ScriptedModel([]) as gone:
        address = gone.url

    failure = subject.failure(api_base=address)

    assert ("connect", True) == (failure.cause.kind, failure.transient)


def test_a_served_model_of_another_name_is_shown(subject: Subject) -> None:
    """REC-26."""
    subject.play(text="ok", fault={"kind": "other_model", "model": "cheaper"})

    assert "cheaper" == subject.answer().served_model


def test_reasoning_is_progress_and_is_not_kept(subject: Subject) -> None:
    """REC-18, REC-22: it takes longer than the idle limit, and never falls silent."""
    subject.play(text="ok", fault={"kind": "slow_reasoning", "count": 12, "every_ms": 100})

    assert "ok" == subject.answer().text


def test_a_refusal_is_marked(subject: Subject) -> None:
    subject.play(refusal="I can't.", finish_reason="stop")

    assert subject.answer().refused


@pytest.mark.parametrize("stream", [True, False])
def test_cancellation_closes_the_connection_within_a_second(subject: Subject, stream: bool) -> None:
    """REC-27: from another thread, on a silent stream, and the server sees it."""
    provider = MAKERS["litellm" if "openai" in subject.name else "scripted"][0](Deadlines())
    subject.play(text="never finished", fault={"kind": "stall"})
    prepared = provider.prepare(subject.request(stream=stream))
    cancellation, results = Cancellation(), []
    thread = threading.Thread(target=lambda: results.append(provider.ask(prepared, cancellation)))
    thread.start()
    wait_until(lambda: subject.sends == 1)

    begun = time.monotonic()
    cancellation.cancel()
    thread.join(WAIT_SECONDS)
    took = time.monotonic() - begun

    assert [("cancelled", False)] == [(r.cause.kind, r.transient) for r in results]
    assert took < 1
    wait_until(lambda: subject.model.requests[-1].outcome == "disconnected")
    provider.close()


def test_what_was_cancelled_before_is_not_sent(subject: Subject) -> None:
    """REC-27."""
    subject.play(text="ok")
    cancellation = Cancellation()
    cancellation.cancel()

    result = subject.provider.ask(subject.provider.prepare(subject.request()), cancellation)

    assert isinstance(result, Failure)
    assert ("cancelled", 0) == (result.cause.kind, subject.sends)


def test_what_streams_is_heard_as_it_comes_and_reasoning_is_not(subject: Subject) -> None:
    """REC-22: text and the arguments of calls, in pieces, before the response has ended."""
    heard: list[Piece] = []
    call = {"name": "submit_output", "arguments": '{"output": {"n": 1}}'}
    subject.play(
        text="let me see",
        fault={"kind": "slow_reasoning", "count": 3, "every_ms": 1},
        tool_calls=[call],
        chunks=4,
        finish_reason="tool_calls",
    )
    prepared = subject.provider.prepare(subject.request())
    answer = subject.provider.ask(prepared, Cancellation(), heard.append)

    assert isinstance(answer, Answer)
    assert len(heard) > 5
    assert answer.text == "".join(piece.text for piece in heard if piece.tool is None)
    assert answer.text == "let me see"
    arguments = "".join(piece.text for piece in heard if piece.tool == "submit_output")
    assert arguments == answer.calls[0].arguments == call["arguments"]
    assert "let me see" not in repr(heard)


def test_what_was_heard_of_a_stream_that_is_cut_is_what_was_sent_of_it(subject: Subject) -> None:
    heard: list[Piece] = []
    subject.play(text="never finished", chunks=3, fault={"kind": "eof"})
    prepared = subject.provider.prepare(subject.request())
    answer = subject.provider.ask(prepared, Cancellation(), heard.append)

    assert isinstance(answer, Answer)
    assert not answer.terminal
    assert "".join(piece.text for piece in heard) == "never finished"


def test_a_whole_body_streams_nothing(subject: Subject) -> None:
    heard: list[Piece] = []
    subject.play(text="ok")
    prepared = subject.provider.prepare(subject.request(stream=False))
    assert isinstance(subject.provider.ask(prepared, Cancellation(), heard.append), Answer)
    assert heard == []


def test_requests_of_many_threads_run_at_the_same_time(subject: Subject) -> None:
    together = 8
    subject.before = len(subject.model.requests)
    subject.model.play({"turns": [{"text": "ok", "delay_ms": 200, "times": together}]})
    results: list[Answer | Failure] = []
    threads = [
        threading.Thread(target=lambda: results.append(subject.ask())) for _ in range(together)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)

    assert ["ok"] * together == [r.text for r in results if isinstance(r, Answer)]
    received = [r.time for r in subject.model.requests[subject.before :]]
    assert together == len(received)


@pytest.mark.parametrize(
    "fault", [None, {"kind": "status", "status": 401}, {"kind": "cut"}], ids=str
)
def test_nothing_secret_is_logged_or_printed(
    subject: Subject,
    fault: dict[str, Any] | None,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """REC-22, OVR-10: neither keys nor prompts nor answers, at the lowest level of logging."""
    caplog.set_level(logging.DEBUG)
    subject.play(text=f"{CANARY}-answer", fault=fault)
    prepared: Prepared = subject.provider.prepare(subject.request())
    result = subject.provider.ask(prepared, Cancellation())

    printed = "".join(capfd.readouterr()) + caplog.text
    described = [repr(x) for x in (result, prepared, subject.provider, subject.model.requests)]
    assert CANARY not in printed + "".join(described[:3])
    assert KEY not in described[3]


def test_the_router_asks_whoever_the_name_says(model: ScriptedModel) -> None:
    router = ModelRouter({"OPENAI_API_KEY": KEY}.get, api_base=model.url)
    model.play({"turns": [{"text": "ok", "times": "always"}]})
    message = Message(role="user", content="q")
    for name in ("scripted/a", "openai/b"):
        request = ModelRequest(
            request_id="x#1", model=name, messages=(message,), api_base=model.url
        )
        assert isinstance(router.ask(router.prepare(request), Cancellation()), Answer)

    assert ["a", "b"] == [r.body["model"] for r in model.requests[-2:]]
    assert "authorization" not in model.requests[-2].headers
    assert "***" == model.requests[-1].headers["authorization"]
    router.close()
