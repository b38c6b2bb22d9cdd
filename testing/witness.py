"""
What the world outside saw of a workflow's effects, and whether it agrees with the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mulligan.decisions.effects import VERIFIED
from mulligan.events import facts
from mulligan.events.envelope import Envelope
from mulligan.events.facts import EffectClass
from mulligan.events.ids import is_instance, template_of
from mulligan.projections.calls import is_lost_function
from mulligan.projections.problem import Problem
from mulligan.projections.run import fold
from mulligan.projections.state import RunState
from mulligan.schemas.plan import FunctionPlan


class Effect(msgspec.Struct, frozen=True):
    """
    An effect that was seen to happen. `key` is what its tool or function was handed as its
    `idempotency_key`; `at_ms` is when, by a clock that agrees with the log's (None: not told).
    """

    key: str
    at_ms: int | None = None


@dataclass
class _Announced:
    """A call that the log announces, and what it says came of it."""

    run: str
    name: str
    effect: EffectClass
    starts: int = 0
    allowed: int = 1
    succeeded_ms: int | None = None
    """when the log held its result"""
    denied: bool = False
    """an observation found that it had not taken effect"""


@dataclass
class Witness:
    """
    Compares effects with histories. Hand in every run that shares the world (`take`), then ask.

    Args:
        effects: all that was seen of the tools and functions that `covers` names (tools by name,
            function nodes by id), or, if it is None, of every `write` at least.
        slack_ms: how far the clocks of the log and of the effects may be apart.
    """

    effects: Iterable[Effect]
    covers: Collection[str] | None = None
    slack_ms: int = 100
    _calls: dict[str, _Announced] = field(default_factory=dict)

    def take(self, run: str, events: Sequence[Envelope]) -> None:
        """One more run's history."""
        keys = _keys(run, events)
        copied = next((e.version for e in events if isinstance(e.data, facts.RunForked)), 0)
        for event in events:
            if event.version > copied:
                self._see(event, keys)

    def problems(self) -> list[Problem]:
        """What is wrong between what was seen and what was logged."""
        seen: dict[str, list[int | None]] = {}
        for effect in self.effects:
            seen.setdefault(effect.key, []).append(effect.at_ms)
        found = [
            Problem("effect_unannounced", f"{key} was seen {len(times)} times, and is in no log")
            for key, times in seen.items()
            if key not in self._calls
        ]
        for key, call in self._calls.items():
            found += self._judge(key, call, seen.get(key, []))
        return found

    def _judge(self, key: str, call: _Announced, times: list[int | None]) -> Iterator[Problem]:
        count = len(times)
        if call.effect == "write" and count > call.allowed:
            told = f"the write {key} was seen {count} times, {call.allowed} allowed"
            yield Problem("effect_doubled", told, call.run)
        elif count > call.starts:
            told = f"{key} was seen {count} times, after {call.starts} starts"
            yield Problem("effect_unannounced", told, call.run)
        if call.succeeded_ms is not None and not times and self._is_covered(call):
            yield Problem("effect_invented", f"{key} succeeded, and was not seen", call.run)
        if call.denied and times:
            told = f"{key} was found not to have taken effect, and was seen"
            yield Problem("effect_denied", told, call.run)
        if (late_ms := self._late_ms(call, times)) is not None:
            told = f"{key} was done {late_ms} ms after its result was there"
            yield Problem("progress_lost", told, call.run)

    def _late_ms(self, call: _Announced, times: Iterable[int | None]) -> int | None:
        """
        How long after its result something was done that was started once. (What was started again
        meanwhile may still be under way when the first one's late receipt comes.)
        """
        if call.succeeded_ms is None or call.starts > 1:
            return None
        last_ms = max((at for at in times if at is not None), default=0)
        late_ms = last_ms - call.succeeded_ms
        return late_ms if late_ms > self.slack_ms else None

    def _is_covered(self, call: _Announced) -> bool:
        return call.effect == "write" if self.covers is None else call.name in self.covers

    def _see(self, event: Envelope, keys: Mapping[str, _Named]) -> None:
        call_id = getattr(event.data, "call_id", event.node)
        named = keys.get(call_id or "")
        if named is None:
            return
        call = self._calls.setdefault(named.key, _Announced(event.run, named.name, named.effect))
        match event.data:
            case facts.ToolStarted() | facts.NodeStarted():
                call.starts += 1
            case (
                facts.ToolSucceeded()
                | facts.ToolReceiptArrived(outcome="succeeded")
                | facts.NodeCompleted()
            ):
                call.succeeded_ms = call.succeeded_ms or event.time_ms
            case facts.EffectReconciled(outcome="retry"):
                call.allowed += 1
            case facts.TimerSet(purpose="retry", invocation=None):
                call.allowed += 1  # a function that failed, whose author wants it tried again
            case facts.EffectReconciled(outcome="failed", by=by):
                call.denied = by == VERIFIED
            case _:
                pass


class _Named(NamedTuple):
    """What the world knows a call by, and what its author calls it."""

    key: str
    name: str
    effect: EffectClass


def _keys(run: str, events: Sequence[Envelope]) -> dict[str, _Named]:
    """By the id of each call, and of each function node's instance."""
    found = {
        event.data.call_id: _Named(event.data.key, event.data.tool, event.data.effect)
        for event in events
        if isinstance(event.data, facts.ToolRequested)
    }
    state = fold(run, events)
    for node in state.nodes:
        plan = state.plan_of(node)
        work = plan.work
        fanned_out = plan.for_each is not None and not is_instance(node)
        if isinstance(work, FunctionPlan) and not fanned_out:  # its instances are called, not it
            name = template_of(node)
            found[node] = _Named(_key_of(state, node), name, work.effect)
    return found


def unknown_effects(state: RunState) -> list[tuple[str, str]]:
    """What nobody knows whether it took effect: the calls, and the keys the world knows them by."""
    calls = [
        (call.id, call.key)
        for invocation in state.invocations.values()
        for call in invocation.calls.values()
        if call.status == "unknown"
    ]
    lost = [node for node in state.nodes if is_lost_function(state, node)]
    return calls + [(node, _key_of(state, node)) for node in lost]


def _key_of(state: RunState, node: str) -> str:
    """What a function node is handed as its key."""
    return f"{state.begun_in(node)}:{node}"
