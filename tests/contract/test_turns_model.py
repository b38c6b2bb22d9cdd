"""The script takes the same turns as its model in memory, whatever happens."""

from __future__ import annotations

import random

import pytest

from mulligan.events.memory_slots import MemorySlots
from mulligan.events.redis_slots import RedisSlots
from mulligan.events.slots import Called, Lane, Queued, Refused, Slots, Taken
from mulligan.events.tenants import RUNS, TOGETHER, TenantLimits, packed
from mulligan.testing.server import ValkeyServer

LANES = (Lane(name="one", concurrent=1), Lane(name="four", concurrent=4), Lane(name="any"), RUNS)
TENANTS = ("a", "b", "c", None)


def told(answer: Taken | Queued | Refused) -> tuple[object, ...]:
    """All of an answer but times."""
    match answer:
        case Taken():
            return ("taken", calls(answer.called))
        case Queued():
            return ("queued", answer.ahead, answer.by_tenant, calls(answer.called))
        case Refused():
            return ("refused", answer.waiting)


def calls(called: tuple[Called, ...]) -> list[tuple[str, str | None, str | None]]:
    return sorted((one.waiter, one.lane, one.tenant) for one in called)


@pytest.mark.server
@pytest.mark.parametrize("seed", range(4))
def test_the_script_does_what_its_model_does(seed: int, server: ValkeyServer) -> None:
    dice = random.Random(seed)
    with server.client() as client:
        client.flushall()
    both: tuple[Slots, ...] = (MemorySlots(lambda: 1_000_000), RedisSlots(server.url))
    for n in range(250):
        lane, tenant = dice.choice(LANES), dice.choice(TENANTS)
        who, what = f"{dice.randrange(12):02}", dice.randrange(10)
        if lane == RUNS and tenant is None:
            continue
        name, token = f"{tenant}-{who}", f"{tenant}/{lane.name}-{who}"
        limits = TenantLimits(
            runs=dice.choice([1, 2, None, "none"]),
            requests=dice.choice([1, 3, None, "none"]),
            queued=dice.choice([2, None]),
        )
        bounded = dice.random() < 0.3
        answers: list[object] = []
        for slots in both:
            if what == 0:
                together = TOGETHER if tenant is None else tenant
                only_runs = TenantLimits(runs=limits.runs) if together == TOGETHER else limits
                answers.append(calls(slots.limit(together, packed(only_runs))))
            elif what < 6:
                take = slots.take(
                    lane,
                    name,
                    token,
                    hold_ms=60_000,
                    since_ms=n + 1,
                    tenant=tenant,
                    bounded=bounded,
                )
                answers.append(told(take))
            elif what < 9:
                answers.append(calls(slots.give_back(lane, token, tenant=tenant)))
            else:
                answers.append(calls(slots.leave(lane, name, tenant=tenant)))
        assert answers[0] == answers[1], f"step {n} of seed {seed}"
    memory, redis = (slots.loads() for slots in both)
    assert {name: load for name, load in memory.items() if load.held or load.waiting} == {
        name: load for name, load in redis.items() if load.held or load.waiting
    }
    both[1].close()
