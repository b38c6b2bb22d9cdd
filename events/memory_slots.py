"""
The slots in memory: for one process, and as the plain model of `lua/slots.lua`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from msgspec.structs import replace

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
    Refused,
    Taken,
)
from mulligan.events.tenants import (
    BUILT_IN,
    DEFAULT,
    RUNS,
    TOGETHER,
    TenantLimits,
    gate_of,
    unpacked,
)

NOBODY = ""
"""The turn of those who wait for no tenant."""

UNRENEWED = 100
"""Begun runs that are looked at in one go."""

LONGEST_DEBT_MS = 600_000
"""A tenant whose requests took more tokens than was thought waits no longer than that for it."""


@dataclass(slots=True)
class _Gate:
    """What a tenant holds, and when its rates are used up; see the keys of `lua/slots.lua`."""

    held: dict[str, int] = field(default_factory=dict)
    next_ms: float = 0.0
    tokens_ms: float = 0.0
    wanted: int = 1
    """tokens of the request that waited for some last"""


@dataclass(slots=True)
class _Standing:
    """A lane's tokens, waiters by tenant, and meter; see the keys of `lua/slots.lua`."""

    lane: Lane
    held: dict[str, int] = field(default_factory=dict)
    turns: dict[str, dict[str, int]] = field(default_factory=dict)
    """of tenants with waiters, in the order of their turns: waiter → since when it waits"""
    called: dict[tuple[str, str], int] = field(default_factory=dict)
    """tenant and waiter → when it loses its place"""
    next_ms: float = 0.0
    paused_until_ms: int = 0

    def pass_over(self, now_ms: int) -> None:
        """Count out holders and callees whose time is over, and pauses of a clock set back."""
        self.paused_until_ms = min(self.paused_until_ms, now_ms + LONGEST_PAUSE_MS)
        if self.lane.name != RUNS.name:
            self.held = {token: until for token, until in self.held.items() if until > now_ms}
        for tenant, waiter in [one for one, until in self.called.items() if until <= now_ms]:
            self.leave(tenant, waiter)

    def enter(self, tenant: str, waiter: str, since_ms: int) -> None:
        """Give a waiter a place, if it has none, and its tenant a turn after the others."""
        self.turns.setdefault(tenant, {}).setdefault(waiter, since_ms)

    def leave(self, tenant: str, waiter: str) -> None:
        """Take a waiter out."""
        self.called.pop((tenant, waiter), None)
        waiting = self.turns.get(tenant, {})
        waiting.pop(waiter, None)
        if not waiting:
            self.turns.pop(tenant, None)

    def had_its_turn(self, tenant: str) -> None:
        """The other tenants come first now."""
        if tenant in self.turns:
            self.turns[tenant] = self.turns.pop(tenant)

    def line(self, tenant: str) -> list[str]:
        """A tenant's waiters, in the order of service."""
        waiting = self.turns.get(tenant, {})
        return sorted(waiting, key=lambda waiter: (waiting[waiter], waiter))

    def delay_of(self, count: int, now_ms: int) -> int:
        """The wait until the `count`-th of those who come may take a slot, by rate and pause."""
        first_ms = max(self._next_ms(now_ms), now_ms, self.paused_until_ms)
        by_rate = first_ms + (count - self.lane.burst) * self.lane.spacing_ms - now_ms
        return max(0, math.ceil(by_rate), self.paused_until_ms - now_ms)

    def took(self, now_ms: int) -> None:
        """Note that a slot was taken."""
        self.next_ms = max(self._next_ms(now_ms), now_ms) + self.lane.spacing_ms

    def _next_ms(self, now_ms: int) -> float:
        """When the rate would be used up evenly; never later than the takes up to now make it."""
        return min(self.next_ms, now_ms + self.lane.burst * self.lane.spacing_ms)

    @property
    def free(self) -> float:
        """Slots that are not held."""
        most = self.lane.concurrent
        return math.inf if most is None else most - len(self.held)

    def first_end_ms(self, held: dict[str, int], now_ms: int) -> int:
        """When the next of some holders, or callee, is counted out."""
        return min([*held.values(), *self.called.values(), now_ms + FAR_MS]) - now_ms


class MemorySlots:
    """The `Slots` of one process. `now_ms` is the clock that they go by, in milliseconds."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = Lock()
        self._lanes: dict[str, _Standing] = {}
        self._gates: dict[str, _Gate] = {}
        self._limits: dict[str, str] = {}

    def take(
        self,
        lane: Lane,
        waiter: str,
        token: str,
        *,
        hold_ms: int,
        since_ms: int | None = None,
        tenant: str | None = None,
        tokens: int = 0,
        bounded: bool = False,
    ) -> Taken | Queued | Refused:
        """See `Slots.take`."""
        with self._lock:
            now_ms, who = self._now_ms(), tenant or NOBODY
            standing = self._standing(lane)
            gate = self._gate(who, lane)
            if token in standing.held:
                self._hold(standing, gate, token, now_ms + hold_ms)
                return Taken(self._call_next(standing))
            standing.enter(who, waiter, since_ms or now_ms)
            queued = self._obstacle(standing, gate, who, waiter, tokens)
            if queued is not None:
                waiting = len(standing.turns[who])
                if bounded and waiting > (self._most(who, "queued") or math.inf):
                    standing.leave(who, waiter)
                    return Refused(waiting - 1)
                return replace(queued, called=self._call_next(standing))
            self._hold(standing, gate, token, now_ms + hold_ms)
            standing.leave(who, waiter)
            standing.had_its_turn(who)
            standing.took(now_ms)
            if gate is not None:
                self._gate_took(gate, who, lane, tokens)
            return Taken(self._call_next(standing))

    def _obstacle(
        self, standing: _Standing, gate: _Gate | None, who: str, waiter: str, tokens: int
    ) -> Queued | None:
        """Why a waiter may not take a slot now, or None."""
        now_ms = self._now_ms()
        ahead = standing.line(who).index(waiter)
        if gate is not None:
            free = self._gate_free(gate, who, standing.lane)
            if ahead >= free:
                return self._far(standing, gate.held, who, waiter, ahead, free, by_tenant=True)
            delay = self._gate_delay(gate, who, standing.lane, ahead + 1, max(tokens, 1))
            if delay:
                gate.wanted = max(tokens, 1)
                standing.called[who, waiter] = now_ms + delay + CALL_MS
                return Queued(delay, ahead, by_tenant=True)
        place = self._place(standing, who, ahead)
        if place >= standing.free:
            return self._far(standing, standing.held, who, waiter, place, standing.free)
        delay = standing.delay_of(place + 1, now_ms)
        if delay:
            standing.called[who, waiter] = now_ms + delay + CALL_MS
            return Queued(delay, place)
        return None

    def _far(
        self,
        standing: _Standing,
        held: dict[str, int],
        who: str,
        waiter: str,
        ahead: int,
        free: float,
        *,
        by_tenant: bool = False,
    ) -> Queued:
        """The wait of one who has to be called; the first ones look by themselves."""
        standing.called.pop((who, waiter), None)
        wait_ms = FAR_MS + ahead * FAR_STEP_MS
        if ahead < free + HEADS:
            wait_ms = max(SOONEST_MS, standing.first_end_ms(held, self._now_ms()))
        return Queued(wait_ms, ahead, by_tenant=by_tenant)

    def _place(self, standing: _Standing, who: str, ahead: int) -> int:
        """Waiters before one that has so many of its own tenant ahead, each turn counted."""
        place, before = ahead, True
        for other in standing.turns:
            if other == who:
                before = False
            else:
                place += int(max(0, min(self._ready(standing, other), ahead + before)))
        return place

    def _ready(self, standing: _Standing, who: str) -> float:
        """How many of a tenant's waiters its limits would let go now."""
        gate = self._gate(who, standing.lane)
        waiting = len(standing.turns[who])
        if gate is None:
            return waiting
        if self._gate_delay(gate, who, standing.lane, 1, gate.wanted):
            return 0
        return min(waiting, self._at_once(gate, who, standing.lane))

    def _at_once(self, gate: _Gate, who: str, lane: Lane) -> float:
        """How many of a tenant may be called together: one after the other where it has a rate."""
        free = self._gate_free(gate, who, lane)
        metered = lane.name != RUNS.name and (
            self._most(who, "per_minute") or self._most(who, "tokens_per_minute")
        )
        return min(free, 1) if metered else free

    def _call_next(self, standing: _Standing) -> tuple[Called, ...]:
        """Call those whose turn it is, once."""
        return tuple(self._calls(standing))

    def _calls(self, standing: _Standing) -> Iterator[Called]:
        if standing.free <= 0:
            return
        now_ms, lines = self._now_ms(), []
        for who in standing.turns:
            line, gate = standing.line(who), self._gate(who, standing.lane)
            most = standing.free
            if gate is not None:
                if self._gate_free(gate, who, standing.lane) <= 0:
                    continue
                delay = self._gate_delay(gate, who, standing.lane, 1, gate.wanted)
                if delay:
                    yield from self._tell(standing, who, line[0], delay)
                    continue
                most = min(most, self._at_once(gate, who, standing.lane))
            if most != math.inf:  # without a limit on what is held they know their moment
                lines.append((who, line[: int(most)]))
        rank = 0
        for at in range(max((len(line) for _, line in lines), default=0)):
            for who, line in lines:
                if at < len(line) and rank < standing.free:
                    rank += 1
                    yield from self._tell(standing, who, line[at], standing.delay_of(rank, now_ms))

    def _call_in(self, standings: Sequence[_Standing]) -> tuple[Called, ...]:
        """Call those whose turn it is in lanes that are not the call's own."""
        return tuple(
            replace(one, lane=each.lane.name) for each in standings for one in self._calls(each)
        )

    def _tell(self, standing: _Standing, who: str, waiter: str, delay: int) -> Iterator[Called]:
        if (who, waiter) not in standing.called:
            standing.called[who, waiter] = self._now_ms() + delay + CALL_MS
            yield Called(waiter, delay, tenant=who or None)

    def give_back(
        self,
        lane: Lane,
        token: str,
        *,
        pause_ms: int = 0,
        tenant: str | None = None,
        tokens: int = 0,
    ) -> tuple[Called, ...]:
        """See `Slots.give_back`."""
        with self._lock:
            now_ms, who = self._now_ms(), tenant or NOBODY
            standing = self._standing(lane)
            standing.held.pop(token, None)
            if pause_ms > 0:
                ends_ms = now_ms + min(pause_ms, LONGEST_PAUSE_MS)
                standing.paused_until_ms = max(standing.paused_until_ms, ends_ms)
            gate = self._gate(who, lane)
            if gate is None:
                return self._call_next(standing)
            gate.held.pop(token, None)
            gate.tokens_ms += tokens * _spacing(self._most(who, "tokens_per_minute"))
            others = [
                one for one in self._lanes.values() if who in one.turns and one is not standing
            ]
            kind = gate_of(who, lane)
            same = [one for one in others if gate_of(who, one.lane) == kind]
            return (*self._call_next(standing), *self._call_in(same))

    def leave(self, lane: Lane, waiter: str, *, tenant: str | None = None) -> tuple[Called, ...]:
        """See `Slots.leave`."""
        with self._lock:
            standing = self._standing(lane)
            standing.leave(tenant or NOBODY, waiter)
            return self._call_next(standing)

    def keep(self, lane: Lane, token: str, *, hold_ms: int, tenant: str) -> None:
        """See `Slots.keep`."""
        with self._lock:
            until_ms = self._now_ms() + hold_ms
            self._hold(self._standing(lane), self._gate(tenant, lane), token, until_ms)

    def unrenewed(self, hold_ms: int) -> tuple[str, ...]:
        """See `Slots.unrenewed`."""
        with self._lock:
            now_ms, held = self._now_ms(), self._standing(RUNS).held
            late = [token for token, until in held.items() if until <= now_ms][:UNRENEWED]
            for token in late:
                held[token] = now_ms + hold_ms
            return tuple(late)

    def renew(self, held: Sequence[tuple[Lane, str]], hold_ms: int) -> None:
        """See `Slots.renew`."""
        with self._lock:
            for lane, token in held:
                gate = self._gates.get(lane.name)
                standing = self._lanes.get(lane.name)
                tokens = gate.held if gate else standing.held if standing else {}
                if token in tokens:
                    tokens[token] = self._now_ms() + hold_ms

    def loads(self) -> dict[str, Load]:
        """See `Slots.loads`; here lanes are never forgotten."""
        with self._lock:
            lanes = {name: self._load(self._standing(one.lane)) for name, one in self._lanes_now()}
            return {**lanes, **{name: self._gate_load(name) for name in self._gates}}

    def _lanes_now(self) -> list[tuple[str, _Standing]]:
        return list(self._lanes.items())

    def _load(self, standing: _Standing) -> Load:
        return Load(
            held=len(standing.held),
            waiting=sum(map(len, standing.turns.values())),
            paused_ms=max(0, standing.paused_until_ms - self._now_ms()),
        )

    def _gate_load(self, name: str) -> Load:
        _, tenant, kind = name.split("/")
        waiting = sum(
            len(one.turns.get(tenant, {}))
            for one in self._lanes.values()
            if (one.lane.name == RUNS.name) == (kind == "runs")
        )
        return Load(held=len(self._gates[name].held), waiting=waiting, paused_ms=0)

    def limits(self) -> dict[str, str]:
        """See `Slots.limits`."""
        with self._lock:
            return dict(self._limits)

    def limit(self, tenant: str, packed: str | None) -> tuple[Called, ...]:
        """See `Slots.limit`."""
        with self._lock:
            self._limits.pop(tenant, None)
            if packed is not None:
                self._limits[tenant] = packed
            return self._call_in([self._standing(one.lane) for _, one in self._lanes_now()])

    def close(self) -> None:
        """There is nothing to let go of."""

    # --- Tenants ---------------------------------------------------------------------------------

    def _most(self, who: str, resource: str) -> int | None:
        limits = BUILT_IN
        for name in (DEFAULT, who):
            if name in self._limits:
                limits = unpacked(self._limits[name]).over(limits)
        return limits.number(resource)  # type: ignore[arg-type]

    def _gate(self, who: str, lane: Lane) -> _Gate | None:
        if who == NOBODY:
            return None
        gate = self._gates.setdefault(gate_of(who, lane).name, _Gate())
        if lane.name != RUNS.name:
            now_ms = self._now_ms()
            gate.held = {token: until for token, until in gate.held.items() if until > now_ms}
        return gate

    def _gate_free(self, gate: _Gate, who: str, lane: Lane) -> float:
        most = self._most(who, "runs" if lane.name == RUNS.name else "requests")
        return math.inf if most is None else most - len(gate.held)

    def _gate_delay(self, gate: _Gate, who: str, lane: Lane, count: int, tokens: int) -> int:
        """The wait until the `count`-th of a tenant's waiters may go on, by its rates."""
        if lane.name == RUNS.name:
            return 0
        now_ms, delay = self._now_ms(), 0.0
        rate = Lane(name="", per_minute=self._most(who, "per_minute"))
        if rate.per_minute is not None:
            next_ms = min(gate.next_ms, now_ms + rate.burst * rate.spacing_ms)
            delay = max(next_ms, now_ms) + (count - rate.burst) * rate.spacing_ms - now_ms
        most = self._most(who, "tokens_per_minute")
        if most is not None:
            burst, spacing = Lane(name="", per_minute=most).burst, _spacing(most)
            begun = max(min(gate.tokens_ms, now_ms + LONGEST_DEBT_MS), now_ms)
            needed = (count - 1) * tokens + min(tokens, burst) - burst
            delay = max(delay, begun + needed * spacing - now_ms)
        return max(0, math.ceil(delay))

    def _gate_took(self, gate: _Gate, who: str, lane: Lane, tokens: int) -> None:
        if lane.name == RUNS.name:
            return
        now_ms = self._now_ms()
        rate = Lane(name="", per_minute=self._most(who, "per_minute"))
        next_ms = min(gate.next_ms, now_ms + rate.burst * rate.spacing_ms)
        gate.next_ms = max(next_ms, now_ms) + rate.spacing_ms
        spent = tokens * _spacing(self._most(who, "tokens_per_minute"))
        gate.tokens_ms = max(min(gate.tokens_ms, now_ms + LONGEST_DEBT_MS), now_ms) + spent

    def _hold(self, standing: _Standing, gate: _Gate | None, token: str, until_ms: int) -> None:
        standing.held[token] = until_ms
        if gate is not None:
            gate.held[token] = until_ms

    def _standing(self, lane: Lane) -> _Standing:
        standing = self._lanes.setdefault(lane.name, _Standing(lane))
        standing.lane = self._together() if lane.name == RUNS.name else lane
        standing.pass_over(self._now_ms())
        return standing

    def _together(self) -> Lane:
        limits = unpacked(self._limits[TOGETHER]) if TOGETHER in self._limits else TenantLimits()
        return Lane(name=RUNS.name, concurrent=limits.number("runs"))


def _spacing(per_minute: int | None) -> float:
    """Milliseconds for each, with a tenth of a minute's at once; 0 without a limit."""
    return Lane(name="", per_minute=per_minute).spacing_ms
