"""
What people say to what is asked of them, held against it before anything is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from mulligan.errors import InvalidInput
from mulligan.events.ids import invocation_of_call
from mulligan.projections.open_requests import OpenRequest, Question, open_requests, request_of
from mulligan.projections.state import Call, RunState
from mulligan.schemas.problems import did_you_mean

LONGEST_ANSWER = 100_000
"""Characters. An answer is part of every later request of its agent."""

Given: TypeAlias = "str | Mapping[str, str | Mapping[str, str]]"
"""
An answer: a text; or, to questions, by their ids, a text each or `{"option": label}`, which must be
one of the labels.
"""


def request_id(state: RunState, node: str | None = None, request: str | None = None) -> str:
    """
    The id of the question that is meant: the one named, or the only one of the run, or of a node.

    Raises:
        InvalidInput: nothing is asked there, or several things; the message says what.
    """
    if request is not None:
        return request
    if node is not None and node not in state.nodes:
        raise InvalidInput(
            f"run {state.run!r} has no node {node!r}{did_you_mean(node, state.nodes)}"
        )
    asked = [one for one in _questions(state) if node in (None, one.node)]
    where = f"run {state.run!r}" if node is None else f"node {node!r} of run {state.run!r}"
    if not asked:
        raise InvalidInput(f"{where} does not wait for an answer: the run is {_standing(state)}")
    if len(asked) > 1:
        lines = "".join(f"\n  {one.line}" for one in asked)
        raise InvalidInput(f"{where} waits for several answers; name one by --request:{lines}")
    return asked[0].id


def asked(state: RunState, request: str) -> tuple[OpenRequest, Call]:
    """
    A question of a run, answered or not, and the call that asks it.

    Raises:
        InvalidInput: the run has none of that id.
    """
    invocation = state.invocations.get(invocation_of_call(request))
    call = invocation.calls.get(request) if invocation is not None else None
    if invocation is not None and call is not None:
        found = request_of(invocation, call)
        if found.kind == "input":
            return found, call
    known = [one.id for one in _questions(state)]
    raise InvalidInput(
        f"run {state.run!r} has no question {request!r}{did_you_mean(request, known)}; "
        f"it waits for {', '.join(known) or 'no answer'}"
    )


def checked(question: OpenRequest, given: Given) -> Any:
    """
    The answer to a question as the agent will read it: a text, or an object of texts by id.

    Raises:
        InvalidInput: it does not answer what is asked; the message says where and what would.
    """
    if not question.questions:
        if isinstance(given, str):
            return _text(given, question.id)
        raise InvalidInput(f"{question.id} asks for free text, not for options: give a text")
    return _by_question(question, given)


def _by_question(question: OpenRequest, given: Given) -> dict[str, str]:
    answers = _object(question, given)
    ids = [one.id for one in question.questions]
    for name in answers:
        if name not in ids:
            hint = did_you_mean(str(name), ids)
            raise InvalidInput(f"{question.id} has no question {name!r}{hint}")
    missing = [name for name in ids if name not in answers]
    if missing:
        wanted = [_option(one) for one in question.questions if one.id in missing]
        raise InvalidInput(
            f"{question.id}: no answer to {', '.join(map(repr, missing))}; all of its questions "
            f"want one: {', '.join(wanted)}"
        )
    return {one.id: _answer(one, answers[one.id]) for one in question.questions}


def _option(question: Question) -> str:
    """How the command line answers a question."""
    return f"--option {question.id}=LABEL" if question.options else f"--text {question.id}=…"


def _object(question: OpenRequest, given: Given) -> Mapping[str, Any]:
    """A text may be a JSON object of the answers, or the answer to the one question there is."""
    if isinstance(given, Mapping):
        return given
    if not isinstance(given, str):
        raise InvalidInput(
            f"the answer to {question.id!r} is a text or an object, not {type(given).__name__}"
        )
    try:
        decoded = msgspec.json.decode(given)
    except (msgspec.DecodeError, RecursionError):
        decoded = None
    if isinstance(decoded, dict):
        return decoded
    if len(question.questions) == 1:
        return {question.questions[0].id: given}
    raise InvalidInput(
        f"{question.id} asks {len(question.questions)} questions: answer each by its id, "
        f"as {_option(question.questions[0])}, or all in one JSON object"
    )


def _answer(question: Question, given: Any) -> str:
    match given:
        case str():
            return _text(given, question.id)
        case {"option": str(label), **more} if not more:
            labels = [option.label for option in question.options]
            if label in labels:
                return label
            raise InvalidInput(
                f"question {question.id!r} has no option {label!r}{did_you_mean(label, labels)}; "
                f"it has {', '.join(map(repr, labels))}; other words go by --text"
            )
        case _:
            raise InvalidInput(
                f'the answer to {question.id!r} is a text or {{"option": LABEL}}, '
                f"not {type(given).__name__}"
            )


def _text(given: str, where: str) -> str:
    if not given.strip():
        raise InvalidInput(f"the answer to {where!r} is blank: say something, or cancel the run")
    if len(given) > LONGEST_ANSWER:
        raise InvalidInput(
            f"the answer to {where!r} has {len(given):,} characters: use up to {LONGEST_ANSWER:,}"
        )
    try:
        given.encode()
    except UnicodeEncodeError:  # bytes of a shell that were no text
        raise InvalidInput(f"the answer to {where!r} is not UTF-8 text") from None
    return given


def approval(state: RunState, call_id: str, decision: Literal["approved", "denied"]) -> Call | None:
    """
    The call that is decided on; None: that was decided before, the same way.

    Raises:
        InvalidInput: it does not wait for approval; the message says how it stands.
    """
    invocation = state.invocations.get(invocation_of_call(call_id))
    call = invocation.calls.get(call_id) if invocation is not None else None
    if call is None:
        known = [one.id for one in open_requests(state) if one.kind == "approval"]
        raise InvalidInput(
            f"run {state.run!r} has no call {call_id!r}{did_you_mean(call_id, known)}; "
            f"{', '.join(known) or 'none'} waits for approval"
        )
    before = "approved" if call.approved else "denied" if call.status == "denied" else None
    if before == decision:
        return None
    if before is not None:
        raise InvalidInput(f"call {call_id!r} was {before} before, which stands")
    refuse_ending(state)
    if call.status != "awaiting_approval":
        raise InvalidInput(f"call {call_id!r} is {call.status}: it does not wait for approval")
    return call


def refuse_ending(state: RunState) -> None:
    """Raise InvalidInput where nothing that is said to a run could matter any more."""
    if state.ended or state.status == "cancelling":
        raise InvalidInput(f"run {state.run!r} is {state.status}: it waits for nobody any more")


def _questions(state: RunState) -> list[OpenRequest]:
    return [one for one in open_requests(state) if one.kind == "input"]


def _standing(state: RunState) -> str:
    return f"{state.status} ({state.reason})" if state.reason else state.status
