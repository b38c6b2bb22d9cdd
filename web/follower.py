"""
The one reader of the log for all who follow it here: a thread that looks at the feed, reads what is
new of the runs that somebody follows, and hands it on.

A thousand clients cost the log's server what one does. Who has to be told is the business of
`tails`, in the event loop; this thread never waits for a client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue

import msgspec
import structlog

from mulligan.client import Client
from mulligan.errors import MulliganError, StoreUnavailable
from mulligan.events.deltas import Delta, Subscription
from mulligan.events.envelope import Envelope
from mulligan.feed import FeedReading, Gap, Reference, SetBack
from mulligan.logs import stack_of
from mulligan.projections.live import LiveLines, Void
from mulligan.web.feed_reading import FeedPlace, order_of, told
from mulligan.web.rings import Line
from mulligan.web.run_reading import Place, closes, end_line, ended, event_line, read_on
from mulligan.web.sse import record

TURN_MS = 200
"""How long one look at the feed waits: so late a new follower is taken into account."""
LIVE_TURN_MS = 30
"""The same while somebody wants to see what models say as they say it."""
AWAY_S = 0.5
MOST_HEARD = 64
"""Runs whose live output is listened to at once: each takes a connection to the log's server."""

log = structlog.get_logger(__name__)


class Watch(msgspec.Struct, frozen=True):
    """
    Somebody follows a run from a place on; `live`: with what its models say. What is told of it
    names `channel`; another one than before begins anew.
    """

    run: str
    channel: int
    place: Place
    live: bool


class Unwatch(msgspec.Struct, frozen=True):
    """Nobody follows it any more; `run` None: nor all runs."""

    run: str | None


class WatchAll(msgspec.Struct, frozen=True):
    """Somebody follows all runs, from their end on."""

    channel: int


Order = Watch | Unwatch | WatchAll


class News(msgspec.Struct, frozen=True):
    """
    New lines of a run, or with `run` None of all runs, and the place after them. `reset`: what was
    told before does not count.
    """

    run: str | None
    channel: int
    lines: tuple[Line, ...]
    place: Place | FeedPlace
    reset: bool = False


class _Watched:
    """A run that is followed."""

    def __init__(self, channel: int, place: Place) -> None:
        self.channel = channel
        self.place = place
        self.order = LiveLines()
        self.subscription: Subscription | None = None
        self.live = False


class Follower:
    """
    The thread, from `start` to `stop`. `tell` is called in it with what is new; `watch` and the
    other orders may be given from any thread.
    """

    def __init__(self, client: Client, tell: Callable[[News], None]) -> None:
        self._client = client
        self._store = client.store
        self._tell = tell
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._runs: dict[str, _Watched] = {}
        self._wants_all: int | None = None
        self._all: FeedPlace | None = None
        self._reading: FeedReading | None = None
        self._due: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread has ended."""
        self._orders.put(None)
        self._thread.join()

    def give(self, order: Order) -> None:
        """What there is to follow from now on."""
        self._orders.put(order)

    def _run(self) -> None:
        while self._take_orders(wait=self._idle):
            try:
                if self._idle:
                    self._reading = None
                else:
                    self._turn()
            except MulliganError as error:  # its server is away, or something can't be read
                self._held_up(problem=str(error))
            except Exception as error:  # one that fails would leave all its clients in silence
                self._held_up(stack=stack_of(error))
        for run in list(self._runs):
            self._forget(run)

    @property
    def _idle(self) -> bool:
        return not self._runs and self._wants_all is None

    def _take_orders(self, *, wait: bool) -> bool:
        """Whether to go on, all orders taken."""
        with suppress(Empty):
            while True:
                order = self._orders.get(block=wait)
                wait = False
                match order:
                    case None:
                        return False
                    case Watch():
                        self._watch(order)
                    case Unwatch():
                        self._unwatch(order.run)
                    case WatchAll():
                        self._wants_all, self._all = order.channel, None
        return True

    def _watch(self, order: Watch) -> None:
        if order.run in self._runs and self._runs[order.run].channel != order.channel:
            self._forget(order.run)
        watched = self._runs.setdefault(order.run, _Watched(order.channel, order.place))
        watched.live = watched.live or order.live
        self._due.add(order.run)

    def _unwatch(self, run: str | None) -> None:
        if run is None:
            self._wants_all, self._all = None, None
        else:
            self._forget(run)

    def _begin_all(self, reading: FeedReading, channel: int) -> None:
        """All runs are told of from here on; who knows less reads that for itself."""
        orders = {partition: order_of(after) for partition, after in reading.places.items()}
        self._all = FeedPlace({part: order for part, order in orders.items() if order[0]})
        self._tell(News(None, channel, (), self._all, reset=True))

    def _feed(self) -> FeedReading:
        if self._reading is None:
            self._reading = FeedPlace.now(self._store).reading(self._store)
            # What came before this look was looked for by nobody.
            self._due |= self._runs.keys()
        return self._reading

    def _turn(self) -> None:
        live = any(watched.live for watched in self._runs.values())
        reading = self._feed()
        if self._wants_all is not None and self._all is None:
            self._begin_all(reading, self._wants_all)
        wait_ms = 0 if self._due else (LIVE_TURN_MS if live else TURN_MS)
        for found in reading.turn(max(wait_ms // len(reading.places), 1) if wait_ms else 0):
            self._found(found)
        due, self._due = self._due, set()
        try:
            for run, watched in list(self._runs.items()):
                if run in due or watched.live:
                    self._news_of(run, watched, run in due)
                    due.discard(run)
        finally:
            self._due |= due  # of those that an error kept us from

    def _found(self, found: Reference | Gap | SetBack) -> None:
        if isinstance(found, Reference):
            if found.entry.run in self._runs:
                self._due.add(found.entry.run)
        else:
            self._due |= self._runs.keys()
        if self._all is not None and self._wants_all is not None:
            lines = tuple(told(self._store, found, self._all))
            for one in lines:
                self._all = self._all.at(one.partition, one.order)
            self._tell(News(None, self._wants_all, lines, self._all))

    def _news_of(self, run: str, watched: _Watched, due: bool) -> None:
        if watched.live and watched.subscription is None:
            self._listen(run, watched)
        more = due
        while more:
            page = read_on(self._store, run, watched.place)
            reset = any(one.kind == "begin" for one in page.lines)
            if reset:
                watched.order = LiveLines()
            merged = self._merged(watched, page.events, heard=not page.more)
            others = tuple(one for one in page.lines if one.kind == "end")
            over = closes(page.events) and ended(self._store, run, page.place)
            end = (end_line(run, page.place),) if over else ()
            watched.place = page.place
            lines = (*merged, *others, *end)
            self._tell(News(run, watched.channel, lines, page.place, reset))
            more = page.more
        if not due and watched.subscription is not None:
            said = self._merged(watched, (), heard=True)
            if said:
                self._tell(News(run, watched.channel, said, watched.place))

    def _merged(
        self, watched: _Watched, events: Iterable[Envelope], *, heard: bool
    ) -> tuple[Line, ...]:
        """Events as lines, with what models said between them."""
        if watched.subscription is None:
            return tuple(map(event_line, events))
        # Heard after the events were read: see `LiveLines`.
        said = self._heard(watched) if heard else ()
        lines, version = [], watched.place.version
        for one in watched.order.merge(events, said):
            if isinstance(one, Envelope):
                lines.append(event_line(one))
                version = one.version
            else:
                lines.append(_live_line(one, version))
        return tuple(lines)

    def _heard(self, watched: _Watched) -> list[Delta]:
        assert watched.subscription is not None
        try:
            return watched.subscription.heard(0)
        except StoreUnavailable:  # what was said meanwhile is lost; it is listened to again
            watched.subscription.close()
            watched.subscription = None
            return []

    def _listen(self, run: str, watched: _Watched) -> None:
        heard = sum(one.subscription is not None for one in self._runs.values())
        if heard < MOST_HEARD:
            watched.subscription = self._client.deltas.subscribe(run)

    def _forget(self, run: str) -> None:
        watched = self._runs.pop(run, None)
        if watched is not None and watched.subscription is not None:
            watched.subscription.close()

    def _held_up(self, **told: str) -> None:
        """All is looked at again soon."""
        log.warning("following_held_up", **told)
        self._due |= self._runs.keys()
        time.sleep(AWAY_S)


def _live_line(said: Delta | Void, version: int) -> Line:
    event = "delta" if isinstance(said, Delta) else "void"
    return Line(record(said, event=event), version, kind="live")
