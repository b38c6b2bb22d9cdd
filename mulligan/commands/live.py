"""
A run's events with its live output between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from mulligan.client import Client
from mulligan.events.deltas import Delta, Subscription
from mulligan.events.envelope import Envelope
from mulligan.projections.live import LiveLines, Void
from mulligan.watch import Watch

TURN_MS = 50
"""How late an event is shown at most, while deltas are waited for."""


def lines(client: Client, run: str, after: int = 0) -> Iterator[Envelope | Delta | Void]:
    """
    A run's events above version `after` until it has ended, and what its models say meanwhile.

    Raises:
        RunUnknown: there is no such run.
    """
    order = LiveLines()
    reading = client.reading(run, after, follow=True)
    with closing(client.deltas.subscribe(run)) as subscription:
        while reading.more:
            # In this order: what a request said was published before the log says that it is over.
            events = reading.page(wait_ms=0)
            heard = subscription.heard(0 if events or not reading.more else TURN_MS)
            yield from order.merge(events, heard)


def watched(watch: Watch, subscription: Subscription) -> Iterator[Envelope | Delta | Void]:
    """
    The same of a run that is watched until it is over, for who has begun to listen before. Where
    its server was set back all begins anew, and nothing of the other history is mixed in.

    Raises:
        RunUnknown: the run is gone from its server.
    """
    order = LiveLines()
    while True:
        before = watch.state.version
        events = watch.look(0)
        if watch.state.version < before:
            order = LiveLines()
        heard = subscription.heard(0 if events or watch.over else TURN_MS)
        yield from order.merge(events, heard)
        if watch.over:
            return
