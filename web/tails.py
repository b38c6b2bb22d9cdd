"""
All who follow runs here: what each is sent, and how it goes on where it fell behind.

A client reads the log up to its end, then the ring that the follower fills for all; one that falls
out of the ring reads the log again. So nothing waits for a client, and none holds anything but its
own place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from typing import TypeVar

import anyio
from anyio import CapacityLimiter

from mulligan.client import Client
from mulligan.web.feed_reading import FeedPlace, lines_of
from mulligan.web.follower import Follower, News, Unwatch, Watch, WatchAll
from mulligan.web.rings import Line, Ring
from mulligan.web.run_reading import PAGE, Place, end_line, ended, feed_end_line, read_on
from mulligan.web.sse import HEARTBEAT, HEARTBEAT_S

T = TypeVar("T")

MOST_TAILS = 5_000
PIECE_BYTES = 64 * 1024
READERS = 8
"""Threads that read the log for those who are not at its end."""


class _Channel:
    """
    A ring, and how many follow it. It is whole from `start` on; that of all runs from when it is
    `known`.
    """

    def __init__(self, number: int, start: int = 0) -> None:
        self.number = number
        self.ring = Ring()
        self.clients = 0
        self._start = start
        self.known = False

    @property
    def start(self) -> int:
        """The version after which the ring has all events of its run."""
        dropped = self.ring.dropped
        return dropped.version if dropped is not None else self._start

    def take(self, news: News) -> None:
        """Add what is new."""
        if news.reset:
            self.ring.clear()
            self._start = 0
        self.known = True
        self.ring.add(news.lines)


class Tails:
    """Everybody who follows something; for the thread of the event loop in which it was started."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._store = client.store
        self._numbers = count(1)
        self._runs: dict[str, _Channel] = {}
        self._all: _Channel | None = None
        self._follower: Follower | None = None
        self._readers = CapacityLimiter(READERS)
        self.count = 0
        self._leaving = False

    def start(self) -> None:
        """Begin, in the event loop's thread."""
        loop = asyncio.get_running_loop()

        def tell(news: News) -> None:
            loop.call_soon_threadsafe(self._take, news)

        self._follower = Follower(self._client, tell)
        self._follower.start()

    def leave(self) -> None:
        """Let every stream end; clients connect again, to another server."""
        self._leaving = True
        for channel in self._channels():
            channel.ring.wake()

    async def stop(self) -> None:
        """End."""
        self.leave()
        if self._follower is not None:
            await anyio.to_thread.run_sync(self._follower.stop)

    @property
    def full(self) -> bool:
        """Whether no more can be followed."""
        return self.count >= MOST_TAILS

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One more, as long as it lasts."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    # --- One run ---------------------------------------------------------------------------------

    async def run(
        self, run: str, place: Place, *, live: bool, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """What a run's follower is sent from a place on, until the run has ended."""
        while not self._leaving:
            page = await self.read(partial(read_on, self._store, run, place))
            place = page.place
            for piece in _pieces(page.lines):
                yield piece
            if page.over:
                return
            if page.more:
                continue
            if not follow or await self.read(partial(ended, self._store, run, place)):
                yield end_line(run, place).raw
                return
            with self._watching(run, place, live) as channel:
                if channel.start > place.version:
                    continue
                async for lines in self._from(channel.ring, channel.ring.first):
                    new = [one for one in lines if _is_new(one, place, live)]
                    for piece in _pieces(new):
                        yield piece
                    for one in new:
                        if one.kind == "event":
                            place = Place(one.version, one.event_id)
                    if new and new[-1].kind == "end":
                        return

    @contextmanager
    def _watching(self, run: str, place: Place, live: bool) -> Iterator[_Channel]:
        channel = self._runs.get(run)
        if channel is None:
            channel = self._runs[run] = _Channel(next(self._numbers), place.version)
        assert self._follower is not None
        self._follower.give(Watch(run, channel.number, place, live))
        channel.clients += 1
        try:
            yield channel
        finally:
            channel.clients -= 1
            if not channel.clients:
                del self._runs[run]
                self._follower.give(Unwatch(run))

    # --- All runs --------------------------------------------------------------------------------

    async def all(self, place: FeedPlace, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """What a follower of all runs is sent from a place on."""
        if not follow:
            async for lines in self._logged(place):
                for piece in _pieces(lines):
                    yield piece
            yield feed_end_line().raw
            return
        with self._watching_all() as channel:
            while not channel.known and not self._leaving:
                if not await channel.ring.news(channel.ring.end, HEARTBEAT_S):
                    yield HEARTBEAT
            while not self._leaving:
                number = channel.ring.end
                async for lines in self._logged(place):
                    place = _after(lines, place)
                    for piece in _pieces(lines):
                        yield piece
                async for lines in self._from(channel.ring, number):
                    new = list(_unsent(lines, place))
                    place = _after(new, place)
                    for piece in _pieces(new):
                        yield piece

    async def _logged(self, place: FeedPlace) -> AsyncIterator[list[Line]]:
        """What the log has after a place, to its end."""
        reading = await self.read(partial(place.reading, self._store))
        while True:
            turn = lines_of(self._store, reading, place, 0)
            came = False
            while lines := await self.read(lambda turn=turn: list(islice(turn, PAGE))):  # type: ignore[misc]
                came = True
                place = _after(lines, place)
                yield lines
            if not came:
                return

    @contextmanager
    def _watching_all(self) -> Iterator[_Channel]:
        assert self._follower is not None
        if self._all is None:
            self._all = _Channel(next(self._numbers))
            self._follower.give(WatchAll(self._all.number))
        channel = self._all
        channel.clients += 1
        try:
            yield channel
        finally:
            channel.clients -= 1
            if not channel.clients:
                self._all = None
                self._follower.give(Unwatch(None))

    # --- Both ------------------------------------------------------------------------------------

    async def _from(self, ring: Ring, number: int) -> AsyncIterator[list[Line]]:
        """What comes into a ring, until we have fallen out of it; empty: a sign of life."""
        while not self._leaving:
            lines = ring.since(number)
            if lines is None:
                return
            number += len(lines)
            if lines:
                yield lines
            elif not await ring.news(number, HEARTBEAT_S):
                yield [Line(HEARTBEAT, kind="heartbeat")]

    async def read(self, read: Callable[[], T]) -> T:
        """What `read` gives, in one of the few threads that read the log here."""
        return await anyio.to_thread.run_sync(read, limiter=self._readers)

    def _take(self, news: News) -> None:
        channel = self._all if news.run is None else self._runs.get(news.run)
        # What was still under way to a channel that is gone is none of its successor's.
        if channel is not None and channel.number == news.channel:
            channel.take(news)

    def _channels(self) -> list[_Channel]:
        return [*self._runs.values(), *((self._all,) if self._all is not None else ())]


def _pieces(lines: Sequence[Line]) -> Iterator[bytes]:
    """Lines as they are sent: the next piece waits until the client has taken most of this one."""
    piece = bytearray()
    for line in lines:
        piece += line.raw
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _is_new(line: Line, place: Place, live: bool) -> bool:
    """Whether who is at a place has not had a line of its run, and wants it."""
    if line.kind == "live":
        return live and line.version >= place.version
    return line.kind != "event" or line.version > place.version


def _unsent(lines: Sequence[Line], place: FeedPlace) -> Iterator[Line]:
    """Those of some lines of all runs that who is at a place has not had."""
    for line in lines:
        if line.kind != "event" or line.order > place.orders.get(line.partition, (0, 0, 0)):
            yield line


def _after(lines: Sequence[Line], place: FeedPlace) -> FeedPlace:
    """The place after some lines of all runs."""
    moved = {line.partition: line.order for line in lines if line.kind in ("event", "begin")}
    return FeedPlace({**place.orders, **moved}) if moved else place
