"""
How those who wait for a slot are told that their turn has come: their tasks are woken.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from mulligan.actors.slots import Caller
from mulligan.actors.transact import mint
from mulligan.errors import MulliganError, RunClosed, RunUnknown
from mulligan.events.slots import Called
from mulligan.events.store import Append, AsFact, EventStore, Move
from mulligan.events.tasks import parse_task

FACT = "slot"
"""What the wake-up is about: one key a run, so that it drives no other out of the row's memory."""

OUTSIDE = "call:"
"""How the name of a waiter begins that is no task: a call outside any run, which looks by itself"""

_log = structlog.get_logger(__name__)


def caller(store: EventStore, hint: Callable[[str], None]) -> Caller:
    """
    Wakes tasks in `store`, and hurries on by `hint` those that may come at once. A call that got
    lost costs time only: waiters come by themselves in the end.
    """

    def call(called: Called) -> bool:
        if called.waiter.startswith(OUTSIDE):
            return True
        try:
            store.append(_wake(called))
        except (RunClosed, RunUnknown):
            return False
        except MulliganError as error:
            _log.info("not_called", task=called.waiter, error=type(error).__name__)
            return True
        if called.delay_ms == 0:
            hint(called.waiter)
        return True

    return call


def _wake(called: Called) -> Append:
    run, _, _ = parse_task(called.waiter)
    return Append(
        run=run,
        op=mint(),
        writer=AsFact(FACT),
        events=(),
        moves=(Move(called.waiter, "wake", called.delay_ms),),
    )
