"""Replay by the `eventsourcing` library, its events in memory: of aggregates, and of its log."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from serving import serve

EVENTS = 20
SAVED_AT_ONCE = 100
PAGE = 1_000


class Run(Aggregate):
    """Takes events of about 300 bytes and counts them."""

    @event("Begun")
    def __init__(self) -> None:
        self.count = 1

    @event("Stepped")
    def step(self, value: str) -> None:
        self.count += 1


class Replays:
    """The library's application, with runs of twenty events."""

    def __init__(self) -> None:
        self._application: Application[Any] = Application()
        self._ids: list[Any] = []

    def fill(self, events: int) -> list[float]:
        """Keep so many events; what took how long is not compared."""
        began_s = perf_counter()
        runs = []
        for _ in range(events // EVENTS):
            run = Run()
            for _ in range(EVENTS - 1):
                run.step("x" * 150)
            runs.append(run)
            if len(runs) == SAVED_AT_ONCE:
                self._save(runs)
        self._save(runs)
        return [perf_counter() - began_s]

    def _save(self, runs: list[Run]) -> None:
        self._application.save(*runs)
        self._ids += [run.id for run in runs]
        runs.clear()

    def aggregates(self) -> list[float]:
        """Each run's state from its events; and how many there were."""
        began_s = perf_counter()
        count = sum(self._application.repository.get(one).count for one in self._ids)
        return [perf_counter() - began_s, count]

    def log(self) -> list[float]:
        """All events in their order, as a projection reads them; and how many there were."""
        began_s, count = perf_counter(), 0
        mapper, start = self._application.mapper, 1
        while page := self._application.recorder.select_notifications(start, PAGE):
            for notification in page:
                mapper.to_domain_event(notification)
            count += len(page)
            start = page[-1].id + 1
        return [perf_counter() - began_s, count]


if __name__ == "__main__":
    replays = Replays()
    serve({"fill": replays.fill, "aggregates": replays.aggregates, "log": replays.log})
