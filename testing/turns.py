"""
Threads that take turns: exactly one goes on at a time, and only for as long as it is let.

What runs in one calls `Turn.reach` wherever it may be stopped; there it stands until it is let go
on, or is killed. So real, blocking code is interleaved in any order, and in the same order again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar


class Killed(BaseException):
    """What a thread that is killed unwinds by; nothing that it calls has any effect any more."""


class Turn:
    """One piece of work in a thread, and the point at which it stands."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self.point = "begun"
        self.over = False
        self.killed = False
        self.failure: BaseException | None = None
        self._work = work
        self._go = _shut()
        self._stands = _shut()
        _Thread.take().give(self._run)

    def step(self) -> None:
        """Let it go on to its next point, or its end."""
        self._go.release()
        self._stands.acquire()

    def kill(self) -> None:
        """It does nothing more."""
        self.killed = True
        while not self.over:
            self.step()

    def reach(self, point: str) -> None:
        """For what runs in it: stand here until it is let go on."""
        if self.killed:
            raise Killed
        self.point = point
        self._stands.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self._work()
        except Killed:
            pass
        except BaseException as error:  # told to whoever lets it go on
            self.failure = error
        self.over = True
        self._stands.release()


def _shut() -> threading.Lock:
    """A lock that one thread releases for another: far cheaper than a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Thread:
    """A thread that does one piece of work after another; making new ones costs more."""

    _idle: ClassVar[list[_Thread]] = []

    def __init__(self) -> None:
        self._work: Callable[[], None] | None = None
        self._given = _shut()
        threading.Thread(target=self._go_on, name="turns", daemon=True).start()

    @classmethod
    def take(cls) -> _Thread:
        return cls._idle.pop() if cls._idle else cls()

    def give(self, work: Callable[[], None]) -> None:
        self._work = work
        self._given.release()

    def _go_on(self) -> None:
        while True:
            self._given.acquire()
            assert self._work is not None
            work, self._work = self._work, None
            work()
            self._idle.append(self)
