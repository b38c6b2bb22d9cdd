"""
Who goes next among tenants, whatever they do: limits are never exceeded, nobody waits while it may
go on, and nobody waits for more than its turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.events.memory_slots import MemorySlots
from mulligan.events.slots import Called, Lane, Taken
from mulligan.events.tenants import TOGETHER, TenantLimits, packed

LANES = {"one": Lane(name="one", concurrent=1), "three": Lane(name="three", concurrent=3)}
TENANTS = ("a", "b", "c", None)

limits = st.fixed_dictionaries({name: st.sampled_from([1, 2, None]) for name in ("a", "b", "c")})
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(TENANTS), st.sampled_from(sorted(LANES))),
        st.tuples(st.just("answer"), st.integers(0, 20), st.just("")),
        st.tuples(st.just("vanish"), st.integers(0, 20), st.just("")),
    ),
    max_size=60,
)


@dataclass
class World:
    """Requests of tenants, each in one lane; those that are called come at once."""

    most: dict[str, int | None]
    slots: MemorySlots = field(default_factory=lambda: MemorySlots(lambda: 1_000))
    holding: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    waiting: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)
    """of those that wait: how many may go before them in their lane, at most"""
    asked: int = 0

    def __post_init__(self) -> None:
        for tenant, most in self.most.items():
            self.slots.limit(tenant, packed(TenantLimits(requests=most)))

    def ask(self, tenant: str | None, lane: str) -> None:
        self.asked += 1
        name = f"{self.asked:03}"
        before = [of for of in self.waiting.values() if of[1] == lane]
        own = sum(of[0] == tenant for of in before)
        others = {of[0] for of in before} - {tenant}
        self.bounds[name] = own + (own + 1) * len(others)
        self.waiting[name] = (tenant, lane)
        self._come(name)

    def _come(self, name: str) -> None:
        tenant, lane = self.waiting[name]
        since = int(name)
        answer = self.slots.take(
            LANES[lane], name, name, hold_ms=10_000, since_ms=since, tenant=tenant
        )
        if isinstance(answer, Taken):
            self.holding[name] = self.waiting.pop(name)
            self._went(name, tenant, lane)
        self._tell(answer.called)

    def _went(self, name: str, tenant: str | None, lane: str) -> None:
        """Nobody may be passed by more than it was told, as long as its own limits let it go."""
        self.bounds.pop(name)
        for other, (whose, where) in self.waiting.items():
            if where == lane and whose != tenant and self._may_go(whose):
                self.bounds[other] -= 1
                others = {of[0] for of in self.waiting.values() if of[1] == lane} | {tenant}
                assert self.bounds[other] >= -len(others), f"{other} is passed over"

    def answer(self, nth: int) -> None:
        if self.holding:
            name = sorted(self.holding)[nth % len(self.holding)]
            tenant, lane = self.holding.pop(name)
            self._tell(self.slots.give_back(LANES[lane], name, tenant=tenant))

    def vanish(self, nth: int) -> None:
        if self.waiting:
            name = sorted(self.waiting)[nth % len(self.waiting)]
            tenant, lane = self.waiting.pop(name)
            self.bounds.pop(name)
            self._tell(self.slots.leave(LANES[lane], name, tenant=tenant))

    def _tell(self, called: tuple[Called, ...]) -> None:
        for one in called:
            if one.waiter in self.waiting:
                self._come(one.waiter)

    def _held(self, tenant: str | None) -> int:
        return sum(of[0] == tenant for of in self.holding.values())

    def _may_go(self, tenant: str | None) -> bool:
        most = self.most.get(tenant or "")
        return most is None or self._held(tenant) < most

    def check(self) -> None:
        for name, lane in LANES.items():
            held = sum(of[1] == name for of in self.holding.values())
            assert held <= (lane.concurrent or math.inf)
            if held < (lane.concurrent or math.inf):
                idle = [one for one, of in self.waiting.items() if of[1] == name]
                assert not [one for one in idle if self._may_go(self.waiting[one][0])]
        for tenant, most in self.most.items():
            assert most is None or self._held(tenant) <= most


@given(limits, steps)
@settings(max_examples=150, deadline=None)
def test_limits_hold_no_slot_lies_idle_and_every_tenant_has_its_turn(
    most: dict[str, int | None], done: list[tuple[str, object, str]]
) -> None:
    world = World(most)
    for step in done:
        match step:
            case ("ask", tenant, lane):
                world.ask(tenant, lane)  # type: ignore[arg-type]
            case ("answer", nth, _):
                world.answer(nth)  # type: ignore[arg-type]
            case (_, nth, _):
                world.vanish(nth)  # type: ignore[arg-type]
        world.check()


@given(st.integers(1, 200), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_one_run_beside_a_flood_begins_after_what_was_begun_and_one_turn(
    flood: int, together: int
) -> None:
    """A thousand of one tenant's before it change nothing."""
    slots, runs = MemorySlots(lambda: 1_000), Lane(name="runs")
    slots.limit(TOGETHER, packed(TenantLimits(runs=together)))
    for n in range(flood + together):
        slots.take(runs, f"a{n}/", f"a/a{n}", hold_ms=1, since_ms=n + 1, tenant="a")
    slots.take(runs, "b/", "b/b", hold_ms=1, since_ms=10_000, tenant="b")

    ended, begun = 0, ""
    while begun != "b/":
        (called,) = slots.give_back(runs, f"a/a{ended}", tenant="a")
        begun, ended = called.waiter, ended + 1
        slots.take(runs, begun, f"{called.tenant}/{begun[:-1]}", hold_ms=1, tenant=called.tenant)

    assert ended <= 2
