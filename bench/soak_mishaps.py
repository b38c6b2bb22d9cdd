"""
What befalls the soak: workers, projector and server are killed and stopped, alone and together.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any, cast

from redis.exceptions import RedisError
from soak_world import LEASE_MS, Soak

from mulligan.events.keys import Keys
from mulligan.testing.journal import Entry, Taken

SHORTEST_S, LONGEST_S = 0.5, 3.5
"""Between two mishaps."""

TOOK_OVER = "of which while another took over"

LOOK_EVERY_S = 0.05
BEYOND_LEASE_MS = 1_000
"""From a kill to going on elsewhere it takes the lease and so much at most."""

SOON_S = 0.3
"""When another one strikes into a recovery."""


@dataclass(frozen=True)
class Kill:
    """A worker that was killed, when, and the tasks it held: task and token."""

    pid: int
    at_ms: int
    held: tuple[tuple[str, str], ...]


class Mishaps:
    """Something happens now and then; what was killed comes back, what was stopped goes on."""

    def __init__(self, soak: Soak) -> None:
        self.happened = Counter[str]()
        self.kills: list[Kill] = []
        self._soak = soak
        self._dice = soak.dice
        self._next_s = time.monotonic() + SHORTEST_S
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._redis = soak.server.client()
        self.watch = Watch(soak)

    def strike(self) -> None:
        """One more mishap, if it is time for one."""
        self._what_is_due()
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self._dice.uniform(SHORTEST_S, LONGEST_S)
        mishaps: dict[Callable[[], None], int] = {
            self._kill_worker: 30,
            self._kill_two_workers: 8,
            self._kill_again: 8,
            self._stop_worker: 16,
            self._kill_writing_process: 6,
            self._kill_projector: 8,
            self._kill_server: 8,
            self._kill_server_and_worker: 4,
            self._stop_server: 4,
            self._restart_group: 5,
            self._drain_group: 3,
        }
        self._dice.choices(list(mishaps), weights=list(mishaps.values()))[0]()

    def end(self) -> None:
        """No more of it: what is stopped goes on, what was killed comes back."""
        while self._due:
            self._what_is_due()
            time.sleep(0.01)
        self.watch.end()
        self._redis.close()

    def _what_is_due(self) -> None:
        due = [entry for entry in self._due if entry[0] <= time.monotonic()]
        for entry in due:
            self._due.remove(entry)
            entry[1]()

    def _in(self, seconds: float, act: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + seconds, act))

    # --- Workers ---------------------------------------------------------------------------------

    def _kill_worker(self) -> None:
        workers = self._soak.workers()
        if not workers:
            return
        pid = self._dice.choice(workers)
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)
            self.happened["worker killed"] += 1
            self.kills.append(Kill(pid, time.time_ns() // 1_000_000, self._leased()))

    def _kill_two_workers(self) -> None:
        self._kill_worker()
        self._kill_worker()

    def _kill_again(self) -> None:
        """And the next one just when it takes over."""
        self._kill_worker()
        self._in(LEASE_MS / 1_000 + self._dice.uniform(0, SOON_S), self._kill_worker)
        self.happened[TOOK_OVER] += 1

    def _stop_worker(self) -> None:
        """For less than its lease, or for more, so that it wakes up as one of the past."""
        workers = self._soak.workers()
        if workers:
            self._pause(self._dice.choice(workers), self._dice.uniform(0.3, 3) * LEASE_MS / 1_000)
            self.happened["worker stopped"] += 1

    def _kill_writing_process(self) -> None:
        """One of those in which a worker does its writes."""
        children = [pid for worker in self._soak.workers() for pid in _descendants(worker)]
        if children:
            with suppress(ProcessLookupError):
                os.kill(self._dice.choice(children), SIGKILL)
                self.happened["writing process killed"] += 1

    def _leased(self) -> tuple[tuple[str, str], ...]:
        """Who holds what, by the server."""
        try:
            records = cast("dict[bytes, bytes]", self._redis.hgetall(Keys(0).tasks))
        except RedisError:  # the server is gone as well
            return ()
        parted = [(task.decode(), record.decode().split("|")) for task, record in records.items()]
        return tuple((task, record[1]) for task, record in parted if record[0] == "l")

    # --- Groups of workers -----------------------------------------------------------------------

    def _restart_group(self) -> None:
        """A supervisor is killed; another is there before its workers have drained."""
        self._replace(lambda group: group.kill())
        self.happened["supervisor killed"] += 1

    def _drain_group(self) -> None:
        """A new version is deployed beside the old one, which drains meanwhile."""
        self._replace(lambda group: threading.Thread(target=group.terminate, daemon=True).start())
        self.happened["supervisor drained"] += 1

    def _replace(self, end: Callable[[Any], None]) -> None:
        at = self._dice.randrange(len(self._soak.groups))
        old = self._soak.groups[at]
        self._soak.groups[at] = self._soak.start_group()
        self._soak.dead.append(old)
        end(old)

    # --- Projector and server --------------------------------------------------------------------

    def _kill_projector(self) -> None:
        self._soak.projector.kill()
        self._soak.projector.wait()
        self._soak.projector = self._soak.start_projector()
        self.happened["projector killed"] += 1

    def _kill_server(self) -> None:
        if not self._server_is_up():
            return
        self.watch.server_is_up = False
        self._soak.server.kill()
        self.happened["server killed"] += 1
        self._in(self._dice.uniform(0, 1), self._start_server)

    def _start_server(self) -> None:
        self._soak.server.start()
        self.watch.server_is_up = True

    def _kill_server_and_worker(self) -> None:
        self._kill_server()
        self._kill_worker()

    def _stop_server(self) -> None:
        """It answers nobody, and then everybody."""
        if not self._server_is_up():
            return
        self.watch.server_is_up = False
        os.kill(self._soak.server.pid, SIGSTOP)
        self.happened["server stopped"] += 1

        def go_on() -> None:
            os.kill(self._soak.server.pid, SIGCONT)
            self.watch.server_is_up = True

        self._in(self._dice.uniform(0.2, 1.5) * LEASE_MS / 1_000, go_on)

    def _server_is_up(self) -> bool:
        return self.watch.server_is_up

    def _pause(self, pid: int, seconds: float) -> None:
        def go_on() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGCONT)

        with suppress(ProcessLookupError):
            os.kill(pid, SIGSTOP)
            self._in(seconds, go_on)


class Watch:
    """Who could have taken over at each moment: the workers that are awake, while the server is."""

    def __init__(self, soak: Soak) -> None:
        self.server_is_up = True
        self._soak = soak
        self._seen: list[tuple[int, frozenset[int]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_for_ever, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no longer."""
        self._ended.set()
        self._thread.join()

    def anyone_throughout(self, from_ms: int, to_ms: int) -> bool:
        """Whether some worker was awake, and the server, all this time."""
        seen = [awake for at_ms, awake in self._seen if from_ms <= at_ms <= to_ms]
        return bool(seen and frozenset.intersection(*seen))

    def _look_for_ever(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            awake = self._soak.awake() if self.server_is_up else ()
            self._seen.append((time.time_ns() // 1_000_000, frozenset(awake)))


def _descendants(pid: int) -> list[int]:
    """A process's children and theirs, but none that are gone."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    children = [int(child) for child in text.split()]
    return children + [below for child in children for below in _descendants(child)]


@dataclass(frozen=True)
class Resumed:
    """How long a task that a killed worker held was nobody's; `disturbed`: no one could take it."""

    took_ms: int
    disturbed: bool


def resumed_ms(kills: list[Kill], watch: Watch, journal: list[Entry]) -> list[Resumed]:
    """For each task that a killed worker held: the time until another had claimed it."""
    claims = [entry for entry in journal if isinstance(entry, Taken)]
    pids = {taken.token: taken.by.partition(".")[0] for taken in claims}
    found = []
    for kill in kills:
        free = watch.anyone_throughout(kill.at_ms, kill.at_ms + LEASE_MS + BEYOND_LEASE_MS)
        for task, token in kill.held:
            if pids.get(token) != str(kill.pid):
                continue
            later = [
                taken.now_ms - kill.at_ms
                for taken in claims
                if taken.task == task and taken.token != token and taken.now_ms > kill.at_ms
            ]
            found += [Resumed(min(later), not free)] if later else []
    return found
