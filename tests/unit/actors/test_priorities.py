"""A run's priority is in the messages that wake its tasks, whoever sends them."""

from __future__ import annotations

from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from mulligan.actors.hints import QUEUE, Hints
from mulligan.actors.priorities import RunPriorities
from mulligan.decisions import people
from mulligan.errors import StoreUnavailable
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Move
from mulligan.schemas.plan import CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import plan_of

PLAN = plan_of(
    NodePlan(
        id="only",
        work=FunctionPlan(
            call=CodeRef(path="steps:only", digest=""),
            arguments=(),
            effect="read",
            attempts=1,
            backoff_ms=1,
            backoff_max_ms=1,
        ),
    )
)


class Reads(MemoryEventStore):
    """A log that counts its reads, and that can be away."""

    count, away = 0, False

    def read(self, *arguments: Any, **more: Any) -> Any:
        self.count += 1
        if self.away:
            raise StoreUnavailable("away")
        return super().read(*arguments, **more)


def test_a_sweep_learns_a_priority_from_the_log_once() -> None:
    store = Reads(lambda: 1_000)
    store.append(people.request("urgent", "op", PLAN, None, priority=-1))
    store.append(people.request("usual", "op", PLAN, None))
    priorities = RunPriorities(store)

    assert [priorities.of(run) for run in ("urgent", "usual", "urgent", "none")] == [-1, 0, -1, 0]
    assert store.count == 3


def test_a_priority_that_can_not_be_read_now_is_read_later() -> None:
    store = Reads(lambda: 1_000)
    store.append(people.request("urgent", "op", PLAN, None, priority=-1))
    priorities = RunPriorities(store)

    store.away = True
    assert priorities.of("urgent") == 0
    store.away = False
    assert priorities.of("urgent") == -1


@pytest.mark.parametrize("priority", [-1, 0, 1])
def test_messages_carry_it(priority: Any) -> None:
    broker = StubBroker(middleware=[])
    dramatiq.actor(lambda task, run: None, actor_name="decide", queue_name=QUEUE, broker=broker)
    sent: list[int] = []
    broker.enqueue = lambda message, delay=None: sent.append(message.options.get("priority", 0))  # type: ignore[method-assign]

    Hints(broker).send_all([Move("run/", "ready"), Move("run/n:only", "wake")], priority)

    assert sent == [priority, priority]
