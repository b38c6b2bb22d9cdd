"""
A provider without a wire, for the tests of workflows.

    provider = ScriptedProvider([{"summary": "done"}])
    ...
    assert provider.requests[0].node == "collect"
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mulligan.events.facts import Cause
from mulligan.events.ids import overseen
from mulligan.providers.body import prepare
from mulligan.providers.port import (
    Answer,
    Cancellation,
    Failure,
    Hear,
    ModelRequest,
    Piece,
    Prepared,
    ToolCall,
)

Scripted = Answer | Failure | str | Mapping[str, Any] | Callable[[ModelRequest], Any]
"""What to answer: as it is; text; an output to submit; or a function of the request to any of
these."""


class ScriptedProvider:
    """
    Gives `answers`, one a request, in order, and those of `overseer` to the overseer's requests;
    requests beyond them fail for good with the cause `script_exhausted`. `requests` are those that
    were asked. Usage is unknown in what it makes up.
    """

    def __init__(self, answers: Sequence[Scripted], overseer: Sequence[Scripted] = ()) -> None:
        self._lock = threading.Lock()
        self._answers = list(answers)
        self._overseer = list(overseer)
        self._asked: list[ModelRequest] = []

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests asked so far, in order."""
        with self._lock:
            return list(self._asked)

    def prepare(self, request: ModelRequest) -> Prepared:
        """Say what would be sent, as a provider over HTTP would."""
        return prepare(request, request.model.rpartition("/")[2])

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        """Give the next answer; `hear` is told all of it in one piece."""
        request = prepared.request
        with self._lock:
            self._asked.append(request)
            left = self._overseer if _by_overseer(request) else self._answers
            answer = left.pop(0) if left else _EXHAUSTED
        if cancellation.cancelled:
            return Failure(cause=Cause(kind="cancelled", message="cancelled"), transient=False)
        given = _answer(answer, request)
        if hear is not None and isinstance(given, Answer):
            _say(given, hear)
        return given

    def close(self) -> None:
        """There is nothing to let go of."""


def _say(answer: Answer, hear: Hear) -> None:
    if answer.text:
        hear(Piece(answer.text))
    for call in answer.calls:
        hear(Piece(call.arguments, call.name))


_EXHAUSTED = Failure(
    cause=Cause(kind="script_exhausted", message="no scripted answer is left"), transient=False
)


def _by_overseer(request: ModelRequest) -> bool:
    return overseen(request.request_id.rpartition("#")[0]) is not None


def _answer(answer: Scripted, request: ModelRequest) -> Answer | Failure:
    if callable(answer):
        return _answer(answer(request), request)
    match answer:
        case Answer() | Failure():
            return answer
        case str():
            return Answer(finish_reason="stop", terminal=True, text=answer)
        case _:
            return _submitted(dict(answer), request)


def _submitted(output: dict[str, Any], request: ModelRequest) -> Answer:
    """An output, as the request's mode wants it."""
    if not any(tool.name == "submit_output" for tool in request.tools):
        text = msgspec.json.encode(output).decode()
        return Answer(finish_reason="stop", terminal=True, text=text)
    arguments = msgspec.json.encode({"output": output, "assistant_message": None}).decode()
    call = ToolCall(f"{request.request_id}.submit", "submit_output", arguments)
    return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))
