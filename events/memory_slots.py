"""
The slots in memory: for one process, and as the plain model of `lua/slots.lua`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from mulligan.events.slots import (
    CALL_MS,
    FAR_MS,
    FAR_STEP_MS,
    HEADS,
    LONGEST_PAUSE_MS,
    SOONEST_MS,
    Called,
    Lane,
    Load,
    Queued,
    Taken,
)


@dataclass(slots=True)
class _Standing:
    """A lane's tokens, waiters and meter; see the keys of `lua/slots.lua`."""

    held: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    called: dict[str, int] = field(default_factory=dict)
    next_ms: float = 0.0
    paused_until_ms: int = 0

    def pass_over(self, now_ms: int) -> None:
        """Count out holders and callees whose time is over, and pauses of a clock set back."""
        self.paused_until_ms = min(self.paused_until_ms, now_ms + LONGEST_PAUSE_MS)
        self.held = {token: until for token, until in self.held.items() if until > now_ms}
        for waiter in [waiter for waiter, until in self.called.items() if until <= now_ms]:
            self.leave(waiter)

    def leave(self, waiter: str) -> None:
        """Take a waiter out."""
        self.waiting.pop(waiter, None)
        self.called.pop(waiter, None)

    @property
    def line(self) -> list[str]:
        """The waiters in the order of service."""
        return sorted(self.waiting, key=lambda waiter: (self.waiting[waiter], waiter))

    def delay_of(self, count: int, lane: Lane, now_ms: int) -> int:
        """The wait until the `count`-th of those who come may take a slot, by rate and pause."""
        first_ms = max(self._next_ms(lane, now_ms), now_ms, self.paused_until_ms)
        by_rate = first_ms + (count - lane.burst) * lane.spacing_ms - now_ms
        return max(0, math.ceil(by_rate), self.paused_until_ms - now_ms)

    def take(self, lane: Lane, now_ms: int) -> None:
        """Note that a slot was taken."""
        self.next_ms = max(self._next_ms(lane, now_ms), now_ms) + lane.spacing_ms

    def _next_ms(self, lane: Lane, now_ms: int) -> float:
        """When the rate would be used up evenly; never later than the takes up to now make it."""
        return min(self.next_ms, now_ms + lane.burst * lane.spacing_ms)

    def free(self, lane: Lane) -> float:
        """Slots that are not held."""
        return math.inf if lane.concurrent is None else lane.concurrent - len(self.held)

    def call_next(self, lane: Lane, now_ms: int) -> tuple[Called, ...]:
        """Call those whose turn it is, once."""
        if lane.concurrent is None:
            return ()
        called = []
        for rank, waiter in enumerate(self.line[: max(0, int(self.free(lane)))], start=1):
            if waiter not in self.called:
                delay_ms = self.delay_of(rank, lane, now_ms)
                self.called[waiter] = now_ms + delay_ms + CALL_MS
                called.append(Called(waiter, delay_ms))
        return tuple(called)

    def first_end_ms(self, now_ms: int) -> int:
        """When the next holder or callee is counted out."""
        ends = [*self.held.values(), *self.called.values(), now_ms + FAR_MS]
        return min(ends) - now_ms


class MemorySlots:
    """The `Slots` of one process. `now_ms` is the clock that they go by, in milliseconds."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = Lock()
        self._lanes: dict[str, _Standing] = {}

    def take(
        self, lane: Lane, waiter: str, token: str, *, hold_ms: int, since_ms: int | None = None
    ) -> Taken | Queued:
        """See `Slots.take`."""
        with self._lock:
            now_ms = self._now_ms()
            standing = self._standing(lane.name)
            if token in standing.held or self._may_take(standing, lane, waiter, since_ms or now_ms):
                standing.held[token] = now_ms + hold_ms
                return Taken(standing.call_next(lane, now_ms))
            return self._queued(standing, lane, waiter)

    def _may_take(self, standing: _Standing, lane: Lane, waiter: str, since_ms: int) -> bool:
        now_ms = self._now_ms()
        standing.waiting.setdefault(waiter, since_ms)
        ahead = standing.line.index(waiter)
        if ahead >= standing.free(lane) or standing.delay_of(ahead + 1, lane, now_ms) > 0:
            return False
        standing.leave(waiter)
        standing.take(lane, now_ms)
        return True

    def _queued(self, standing: _Standing, lane: Lane, waiter: str) -> Queued:
        now_ms = self._now_ms()
        ahead, free = standing.line.index(waiter), standing.free(lane)
        if ahead < free:
            wait_ms = standing.delay_of(ahead + 1, lane, now_ms)
            standing.called[waiter] = now_ms + wait_ms + CALL_MS
        else:
            standing.called.pop(waiter, None)
            wait_ms = FAR_MS + ahead * FAR_STEP_MS
            if ahead < free + HEADS:
                wait_ms = max(SOONEST_MS, standing.first_end_ms(now_ms))
        return Queued(wait_ms, ahead, standing.call_next(lane, now_ms))

    def give_back(self, lane: Lane, token: str, *, pause_ms: int = 0) -> tuple[Called, ...]:
        """See `Slots.give_back`."""
        with self._lock:
            now_ms = self._now_ms()
            standing = self._standing(lane.name)
            standing.held.pop(token, None)
            if pause_ms > 0:
                ends_ms = now_ms + min(pause_ms, LONGEST_PAUSE_MS)
                standing.paused_until_ms = max(standing.paused_until_ms, ends_ms)
            return standing.call_next(lane, now_ms)

    def leave(self, lane: Lane, waiter: str) -> tuple[Called, ...]:
        """See `Slots.leave`."""
        with self._lock:
            standing = self._standing(lane.name)
            standing.leave(waiter)
            return standing.call_next(lane, self._now_ms())

    def renew(self, held: Sequence[tuple[Lane, str]], hold_ms: int) -> None:
        """See `Slots.renew`."""
        with self._lock:
            for lane, token in held:
                tokens = self._lanes[lane.name].held if lane.name in self._lanes else {}
                if token in tokens:
                    tokens[token] = self._now_ms() + hold_ms

    def loads(self) -> dict[str, Load]:
        """See `Slots.loads`; here lanes are never forgotten."""
        with self._lock:
            return {name: self._load(self._standing(name)) for name in list(self._lanes)}

    def _load(self, standing: _Standing) -> Load:
        return Load(
            held=len(standing.held),
            waiting=len(standing.waiting),
            paused_ms=max(0, standing.paused_until_ms - self._now_ms()),
        )

    def close(self) -> None:
        """There is nothing to let go of."""

    def _standing(self, name: str) -> _Standing:
        standing = self._lanes.setdefault(name, _Standing())
        standing.pass_over(self._now_ms())
        return standing
