"""
Live output beside the events that it belongs to: what is still being said, and what is void.

Deltas come by another way than events and may overtake them. Here they are put between the event
that opened their request and the one that closed it; what comes after that is dropped. When the log
says that a response was of no use, all that was shown of it is declared void, before the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mulligan.events import facts
from mulligan.events.deltas import Delta
from mulligan.events.envelope import Envelope

_CLOSES = (facts.ModelAnswered, facts.ModelFailed, facts.ModelInterrupted)


class Void(msgspec.Struct, frozen=True, kw_only=True, tag="void", tag_field="type"):
    """
    What was shown of a request's response counts for nothing: `reason` tells why, `next_attempt`
    which attempt takes its place (null: none does by itself, or the same attempt asks again).
    """

    run: str
    node: str
    invocation: str
    attempt: int
    request_id: str
    reason: str
    next_attempt: int | None = None


class LiveLines:
    """
    Puts a run's events and deltas in order. Deltas must be collected after the events that go in
    with them were read: those of a request that is open then can wait for the next events only.
    """

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._over: set[str] = set()
        self._answered: set[str] = set()
        self._shown: dict[str, Delta] = {}
        """by invocation: the latest of a response that has not found its use yet"""
        self._waiting: list[Delta] = []

    def merge(
        self, events: Iterable[Envelope], deltas: Iterable[Delta]
    ) -> Iterator[Envelope | Delta | Void]:
        """The next lines."""
        came_before = {delta.request_id for delta in self._waiting}
        self._waiting += deltas
        for event in events:
            yield from self._before(event)
            yield event
            self._after(event)
        # What had been there before these events were read is of requests that are known by now,
        # or that began before the first event of all.
        yield from self._take(self._open | came_before)

    def _before(self, event: Envelope) -> Iterator[Delta | Void]:
        if isinstance(event.data, _CLOSES):
            yield from self._take({event.data.request_id})
        match event.data:
            case facts.AllowanceReserved() as fact:
                yield from self._void(fact.invocation, fact.reason, fact.next_attempt)
            case facts.AllowanceExhausted() as fact:
                yield from self._void(fact.invocation, fact.reason)
            case facts.DecompositionRequested() as fact:
                yield from self._void(fact.invocation, fact.cause.kind)
            case facts.ModelInterrupted() as fact:
                yield from self._void(fact.invocation, "interrupted")
            case facts.SubagentFailed() as fact:
                yield from self._void(fact.invocation, fact.code)
            case facts.NodeFailed() as fact:
                yield from self._void(event.node or "", fact.code)
                yield from self._cut_short(event.node or "")
            case facts.NodeCancelled():
                yield from self._cut_short(event.node or "")
            case _:
                pass

    def _after(self, event: Envelope) -> None:
        match event.data:
            case facts.ModelRequested() as fact:
                self._open.add(fact.request_id)
                self._shown.pop(fact.invocation, None)
            case facts.OutputAccepted() as fact:
                self._shown.pop(fact.invocation, None)
            case facts.ModelAnswered() | facts.ModelFailed() | facts.ModelInterrupted() as fact:
                self._open.discard(fact.request_id)
                self._over.add(fact.request_id)
                if isinstance(fact, facts.ModelAnswered):
                    self._answered.add(fact.request_id)
            case _:
                pass

    def _take(self, requests: set[str]) -> Iterator[Delta]:
        """What waits of these requests, as far as they are not over."""
        taken = [one for one in self._waiting if one.request_id in requests]
        self._waiting = [one for one in self._waiting if one.request_id not in requests]
        for delta in taken:
            if delta.request_id not in self._over:
                self._shown[delta.invocation] = delta
                yield delta

    def _cut_short(self, node: str) -> Iterator[Void]:
        """What was still being said for a node that has ended; whole answers stay."""
        for invocation, delta in list(self._shown.items()):
            if delta.node == node and delta.request_id not in self._answered:
                yield from self._void(invocation, "cancelled")

    def _void(
        self, invocation: str, reason: str, next_attempt: int | None = None
    ) -> Iterator[Void]:
        shown = self._shown.pop(invocation, None)
        if shown is not None:
            yield Void(
                run=shown.run,
                node=shown.node,
                invocation=invocation,
                attempt=shown.attempt,
                request_id=shown.request_id,
                reason=reason,
                next_attempt=next_attempt,
            )
