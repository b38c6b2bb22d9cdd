"""
What a process that works runs needs: the log, the queue, who answers prompts, its leases and folds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dramatiq

from mulligan.actors.admission import Admission
from mulligan.actors.cache import RunCache
from mulligan.actors.calls import caller
from mulligan.actors.code import CodeTable
from mulligan.actors.hints import QUEUE, Hints
from mulligan.actors.leases import LeaseKeeper
from mulligan.actors.live import LiveOutput
from mulligan.actors.passing_on import PassingOn
from mulligan.actors.priorities import RunPriorities
from mulligan.actors.roster import Roster
from mulligan.actors.server_clock import ServerClocks
from mulligan.actors.session import work
from mulligan.actors.slots import SlotKeeper
from mulligan.actors.tracing import Tracing
from mulligan.actors.write_intents import WriteIntents
from mulligan.actors.writes import WriteProcesses, Writes
from mulligan.decisions.reactions import ACTORS
from mulligan.events.deltas import Deltas
from mulligan.events.memory_slots import MemorySlots
from mulligan.events.slots import Slots
from mulligan.events.store import EventStore
from mulligan.events.tasks import parse_task
from mulligan.providers.lanes import Lanes
from mulligan.providers.port import Provider


class Runtime:
    """
    One a process. Its actors are declared on `broker`; it sends the messages that wake them. `app`
    is what the worker was told to import; `lanes` are what limits requests, `slots` where they are
    counted (in this process, if not given); `deltas` is where live output goes, None for nowhere;
    `intents` is what has to be so before a write begins; `tracing` is told what spans tell of.
    """

    def __init__(
        self,
        store: EventStore,
        broker: dramatiq.Broker,
        provider: Provider,
        leases: LeaseKeeper,
        *,
        lease_ms: int,
        app: str | None = None,
        lanes: Lanes | None = None,
        slots: Slots | None = None,
        deltas: Deltas | None = None,
        intents: WriteIntents | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.store = store
        self.broker = broker
        self.provider = provider
        self.leases = leases
        self.lease_ms = lease_ms
        self.clocks = ServerClocks(lease_ms, leases.margin_ms, leases.now_s)
        self.cache = RunCache(store)
        self.roster = Roster(store, app)
        self.code = CodeTable(lambda code, here: self.roster.note(code, here=here))
        self.writes: Writes = WriteProcesses(leases, app)
        self.intents = intents or WriteIntents()
        self.live = LiveOutput(deltas)
        self.tracing = tracing or Tracing()
        self.draining = False
        self.pause: Callable[[float], object] = time.sleep
        """waits so many seconds before an append that got no answer is tried again"""
        self.hints = Hints(broker)
        self._priorities = RunPriorities(store)
        self.passing_on = PassingOn(self.hints.send)
        slots = slots or MemorySlots(lambda: int(time.time() * 1_000))
        call = caller(store, self.send)
        self.slots = SlotKeeper(slots, lanes or Lanes({}), call, hold_ms=lease_ms)
        self.admission = Admission(slots, call)
        for name in ACTORS.values():
            self._declare(name)

    def send(self, task: str) -> None:
        """Wake whoever works `task`, by its run's priority."""
        run, _, _ = parse_task(task)
        self.hints.send(task, self._priorities.of(run))

    def look_around(self) -> None:
        """Every few seconds: give back the places of tenants' runs that do not go on."""
        self.admission.look(self._goes_on)

    def _goes_on(self, run: str) -> bool:
        """Whether a run is there and neither ended nor paused."""
        row = self.store.row(run)
        if row is None or row.phase in ("closed", "archived"):
            return False
        fold = self.cache.fold(run)
        fold.reach(row.version)
        return fold.branch().status != "paused"

    def close(self) -> None:
        """Let go of connections and threads."""
        self.slots.close()
        self.hints.close()
        self.writes.close()
        self.provider.close()
        self.live.close()
        self.store.close()

    def _declare(self, name: str) -> None:
        """
        An actor of ours. They differ by name only: a task's id says what is to be decided, and the
        decisions of its kind say what comes next.
        """

        def body(task: str, run: str) -> None:
            work(self, task)

        dramatiq.actor(actor_name=name, queue_name=QUEUE, broker=self.broker)(body)
