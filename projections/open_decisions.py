"""
What only a person can settle in a run, besides what agents ask: effects whose outcome is unknown,
and drafts that no repair brought through their gates.
"""

from __future__ import annotations

import msgspec

from mulligan.events.facts import EffectClass
from mulligan.events.ids import node_of_invocation
from mulligan.events.payload import Payload
from mulligan.projections.calls import is_lost_function
from mulligan.projections.state import Repair, RunState


class Unsettled(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    An effect that may or may not have taken place. `call` is what `reconcile` names: a tool's call,
    with the `arguments` that it had, or a function node.
    """

    call: str
    node: str
    tool: str
    effect: EffectClass | None = None
    arguments: Payload | None = None


class OpenDecision(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """
    A repair loop that asks what becomes of its best `draft`, which reached `score` of 100;
    `rounds` were applied in all.
    """

    id: str
    node: str
    draft: Payload
    score: float
    rounds: int


def unsettled(state: RunState) -> tuple[Unsettled, ...]:
    """The effects of a run that has not ended of which somebody has to say what they came to."""
    if state.ended:
        return ()
    calls = (
        Unsettled(
            call=call.id,
            node=node_of_invocation(one.id),
            tool=call.name,
            effect=call.effect,
            arguments=call.arguments,
        )
        for one in state.invocations.values()
        for call in one.calls.values()
        if call.status == "unknown"
    )
    return (*calls, *(_lost(state, node) for node in state.nodes if is_lost_function(state, node)))


def _lost(state: RunState, node: str) -> Unsettled:
    function = state.function_of(node)
    assert function is not None
    return Unsettled(call=node, node=node, tool=function.call.path, effect=function.effect)


def open_decisions(state: RunState) -> tuple[OpenDecision, ...]:
    """The repair loops of a run that wait for a decision."""
    if state.ended or state.status == "cancelling":
        return ()
    return tuple(
        _decision(node, one, one.awaits)
        for node, one in state.repairs.items()
        if one.awaits is not None
    )


def _decision(node: str, repair: Repair, request: str) -> OpenDecision:
    best = next(one for one in repair.drafts if one.digest == repair.best)
    return OpenDecision(
        id=request, node=node, draft=best.content, score=best.score, rounds=repair.rounds
    )
