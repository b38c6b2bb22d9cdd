"""
Messages that hurry a task along. One that is lost costs time, never work: the next sweep sends it
again.
"""

from __future__ import annotations

from collections.abc import Iterable

import dramatiq
import structlog
from dramatiq.errors import BrokerError

from mulligan.decisions.reactions import actor_of
from mulligan.events.crash_points import reach
from mulligan.events.facts import Priority
from mulligan.events.store import Move
from mulligan.events.tasks import parse_task

QUEUE = "mulligan"
"""The Dramatiq queue of our actors."""

_log = structlog.get_logger(__name__)


class Hints:
    """Sends messages to our actors, wherever they are declared."""

    def __init__(self, broker: dramatiq.Broker) -> None:
        self.broker = broker

    def send(self, task: str, priority: Priority = 0) -> None:
        """
        Wake whoever works `task`: a message of ids, never of payloads. A broker that knows no
        priorities of messages takes them as they come.
        """
        reach("hint.before")
        run, _, _ = parse_task(task)
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=QUEUE,
            actor_name=actor_of(task),
            args=(),
            kwargs={"task": task, "run": run},
            options={"priority": priority} if priority else {},
        )
        try:
            self.broker.enqueue(message)
        except BrokerError as error:
            _log.warning("hint_not_sent", task=task, error=type(error).__name__)

    def send_all(self, moves: Iterable[Move], priority: Priority = 0) -> None:
        """Wake whoever an append to a run of this priority made ready at once, or woke."""
        for move in moves:
            if move.to in ("ready", "wake"):
                self.send(move.task, priority)

    def close(self) -> None:
        """Let go of the queue's connections."""
        self.broker.close()
