"""
Whether a request fits the model's context, and what to shorten where it does not (REC-20).

The arithmetic is `providers/limits.py`'s; what the parts of a request take is estimated there too.
The system message, the tools and the schema stay as they are. History beyond its planned limit is
compacted: the oldest complete tool rounds first, the newest one never.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from mulligan.decisions.conversation import SUBMIT_OUTPUT, round_of
from mulligan.decisions.decision import Context
from mulligan.events.payload import canonical
from mulligan.projections.state import Invocation, RunState, Turn
from mulligan.providers.limits import (
    TOKENS_PER_MESSAGE,
    Window,
    default_cap,
    history_limit,
    tokens_of,
)
from mulligan.providers.port import Message, ModelRequest, ToolOffer


class Fits(msgspec.Struct, frozen=True):
    """The request may leave; `cap` is the output limit to send where the workflow sets none."""

    cap: int | None


class Compact(msgspec.Struct, frozen=True):
    """It fits once these calls are shortened; sizes of the history in estimated tokens."""

    call_ids: tuple[str, ...]
    tokens_before: int
    tokens_after: int


class TooLong(msgspec.Struct, frozen=True):
    """Nothing that may be shortened makes it fit; in estimated tokens."""

    tokens: int
    limit: int


def window_of(state: RunState) -> Window:
    """What the run's models can take, as far as its settings say."""
    settings = state.plan.settings if state.plan is not None else None
    if settings is None:
        return Window(None, None)
    return Window(settings.context_window, settings.max_output_tokens)


def planned(
    state: RunState, invocation: Invocation, request: ModelRequest, context: Context
) -> Fits | Compact | TooLong:
    """What to do with the next request of an invocation."""
    window = window_of(state)
    explicit = state.agent_of(invocation).max_output_tokens
    fixed = _fixed(request)
    history = sum(map(_of_message, request.messages[1:]))
    limit = history_limit(window, explicit, fixed)
    if limit is None or history <= limit:
        return Fits(None if explicit is not None else default_cap(window, fixed, history))
    return _compacted(invocation, history, limit, context)


def _compacted(
    invocation: Invocation, history: int, limit: int, context: Context
) -> Compact | TooLong:
    left = history
    shortened: list[str] = []
    for turn in invocation.turns[:-1]:
        if set(turn.calls) <= set(invocation.compacted):
            continue
        left -= _saved(invocation, turn, context)
        shortened += turn.calls
        if left <= limit:
            return Compact(tuple(shortened), history, left)
    return TooLong(left, limit)


def _saved(invocation: Invocation, turn: Turn, context: Context) -> int:
    """What shortening a round saves."""
    compact = msgspec.structs.replace(invocation, compacted=turn.calls)
    before, after = (
        sum(map(_of_message, round_of(one, turn, context))) for one in (invocation, compact)
    )
    return before - after


def _fixed(request: ModelRequest) -> int:
    """System, tools and schema."""
    system = _of_message(request.messages[0])
    tools = sum(_of_offer(offer) for offer in request.tools if offer.name != SUBMIT_OUTPUT)
    return system + tools + _of_schema(request)


def _of_schema(request: ModelRequest) -> int:
    match request.mode:
        case "tool":
            return sum(_of_offer(o) for o in request.tools if o.name == SUBMIT_OUTPUT)
        case "native":
            return tokens_of(canonical(request.output_schema).decode())
        case "prompt":
            return 0  # it stands in the system message
        case _:
            assert_never(request.mode)


def _of_message(message: Message) -> int:
    calls = sum(tokens_of(call.name) + tokens_of(call.arguments) for call in message.calls)
    return tokens_of(message.content or "") + calls + TOKENS_PER_MESSAGE


def _of_offer(offer: ToolOffer) -> int:
    texts = (offer.name, offer.description, canonical(offer.parameters).decode())
    return sum(map(tokens_of, texts)) + TOKENS_PER_MESSAGE
