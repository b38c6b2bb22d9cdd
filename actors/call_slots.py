"""
Slots for single calls outside any run: counted on the server that is set, with those of runs; where
none is set, among the calls of this process.
"""

from __future__ import annotations

import threading
import time

from mulligan.actors.calls import OUTSIDE, caller
from mulligan.actors.slots import RequestSlot, SlotKeeper
from mulligan.actors.transact import mint
from mulligan.events.memory_slots import MemorySlots
from mulligan.events.redis_slots import RedisSlots
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.slots import Called, Slots
from mulligan.providers.lanes import Lanes
from mulligan.settings import Settings

_lock = threading.Lock()
_keepers: dict[tuple[str | None, str, int], SlotKeeper] = {}
"""One for each server and limits that calls of this process were made with."""


def call_slot(settings: Settings) -> RequestSlot:
    """
    The slot of one call.

    Raises:
        InvalidInput: limits that name no provider.
    """
    name = mint()
    return RequestSlot(_keeper(settings), f"{OUTSIDE}{name}", name, patient=False)


def _keeper(settings: Settings) -> SlotKeeper:
    limits = repr(sorted(settings.model_limits.items()))
    key = (settings.redis_url, limits, settings.lease_ms)
    with _lock:
        if key not in _keepers:
            _keepers[key] = _new_keeper(settings)
        return _keepers[key]


def _new_keeper(settings: Settings) -> SlotKeeper:
    lanes = Lanes(settings.model_limits)
    if settings.redis_url is None or not settings.model_limits:
        slots: Slots = MemorySlots(lambda: int(time.time() * 1_000))
        return SlotKeeper(slots, lanes, _looks_by_itself, hold_ms=settings.lease_ms)
    store = RedisEventStore(settings.redis_url, partitions=settings.partitions)
    # The next sweep of a worker finds the task that was woken: no message is needed.
    call = caller(store, lambda task: None)
    return SlotKeeper(RedisSlots(settings.redis_url), lanes, call, hold_ms=settings.lease_ms)


def _looks_by_itself(called: Called) -> bool:
    return True
