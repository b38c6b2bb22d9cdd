"""
What a process that works runs needs: the log, the queue, who answers prompts, its leases and folds.
"""

from __future__ import annotations

from collections.abc import Iterable

import dramatiq
import structlog
from dramatiq.errors import BrokerError

from mulligan.actors.cache import RunCache
from mulligan.actors.code import CodeTable
from mulligan.actors.leases import LeaseKeeper
from mulligan.actors.session import work
from mulligan.decisions.reactions import ACTORS, actor_of
from mulligan.events.store import EventStore, Move
from mulligan.events.tasks import parse_task
from mulligan.providers.port import Provider

QUEUE = "mulligan"
"""The Dramatiq queue of our actors."""

_log = structlog.get_logger(__name__)


class Runtime:
    """One a process. Its actors are declared on `broker`; it sends the messages that wake them."""

    def __init__(
        self,
        store: EventStore,
        broker: dramatiq.Broker,
        provider: Provider,
        leases: LeaseKeeper,
        *,
        lease_ms: int,
    ) -> None:
        self.store = store
        self.broker = broker
        self.provider = provider
        self.leases = leases
        self.lease_ms = lease_ms
        self.cache = RunCache(store)
        self.code = CodeTable()
        self.draining = False
        self._actors = {name: self._declare(name) for name in ACTORS.values()}

    def send(self, task: str) -> None:
        """Wake whoever works `task`. A message that can't be sent is left to the next sweep."""
        run, _, _ = parse_task(task)
        try:
            self._actors[actor_of(task)].send(task, run)
        except BrokerError as error:
            _log.warning("hint_not_sent", task=task, error=type(error).__name__)

    def send_hints(self, moves: Iterable[Move]) -> None:
        """Wake whoever an append made ready or woke."""
        for move in moves:
            if move.to in ("ready", "wake"):
                self.send(move.task)

    def _declare(self, name: str) -> dramatiq.Actor[[str, str], None]:
        """
        An actor of ours. They differ by name only: a task's id says what is to be decided, and the
        decisions of its kind say what comes next.
        """

        def body(task: str, run: str) -> None:
            work(self, task)

        declare = dramatiq.actor(actor_name=name, queue_name=QUEUE, broker=self.broker)
        return declare(body)
